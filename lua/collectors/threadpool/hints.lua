-- SPDX-License-Identifier: MIT
-- What to call after a threadpool window.
local hints = require("lunette.hints")
local queue_wait = require("signals.threadpool_queue_wait")

local M = {}

local ORIGINS <const> = 20
local WINDOW_S <const> = 10

--- In order of use. pid is nil for a recording.
---@param artifact PoolArtifact
---@param handle_id string
---@param pid integer?
function M.of(artifact, handle_id, pid)
  local list = {
    hints.new("query_snapshot", "See how many threads the pool had, second by second.", { handle = handle_id, view = "timeline" }),
    hints.new("query_snapshot", "See each change of the pool's size and the reason that the runtime gave.",
      { handle = handle_id, view = "hillClimbing" }),
    hints.new("query_snapshot", "See who queues work.", { handle = handle_id, view = "workItemOrigins", topN = ORIGINS }),
  }
  local starved = artifact.starvation + artifact.blocking > 0
  if pid and (starved or #queue_wait.of(artifact, handle_id) > 0) then
    list[#list + 1] = hints.new("collect_events", "See where threads wait, for handles and for locks (.NET 9 and later).",
      { kind = "wait-handles", durationSeconds = WINDOW_S, processId = pid })
  end
  if pid and starved then
    list[#list + 1] = hints.new("collect_thread_snapshot", "See what the blocked pool threads wait for.", { processId = pid })
  end
  return list
end

return M
