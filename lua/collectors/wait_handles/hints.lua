-- SPDX-License-Identifier: MIT
-- What to call after a window of waits.
local hints = require("lunette.hints")

local M = {}

local TOP <const> = 20

--- Hints for a window, best first.
---@param artifact WaitArtifact
---@param handle_id string?
---@param process_id integer?   nil for a recording: its process is gone
---@return table[]
function M.of(artifact, handle_id, process_id)
  local list = {}
  if #artifact.where > 0 then
    list[1] = hints.new("query_snapshot", "See where threads wait, for handles and for locks.",
      { handle = handle_id, view = "whereThreadsWait", topN = TOP })
  end
  if #artifact.sites > 0 then
    list[#list + 1] = hints.new("query_snapshot", "See the stacks of the waits.", { handle = handle_id, view = "byCallSite", topN = TOP })
  end
  if artifact.inside.n > 0 then
    list[#list + 1] = hints.new("collect_events", "Locks are contended: see which owners make others wait.",
      { kind = "contention", processId = process_id })
  end
  if #list == 0 then
    list[1] = hints.new("collect_thread_snapshot", "No wait ended: see what the threads wait for now.", { processId = process_id })
  end
  return list
end

return M
