-- SPDX-License-Identifier: MIT
-- What to call after a window of requests.
local hints = require("lunette.hints")

local M = {}

local WINDOW_S <const> = 10
local TOP <const> = 50

--- Hints for a window, best first.
---@param artifact RequestsArtifact
---@param handle_id string?
---@param process_id integer?   nil for a recording: its process is gone
---@return table[]
function M.of(artifact, handle_id, process_id)
  local list = {}
  local function add(...) list[#list + 1] = hints.new(...) end
  if artifact.long_running > 0 then
    if process_id then
      add("inspect_process", "Requests are stuck: see what line their threads stand at.",
        { view = "requests-now", processId = process_id }, "high")
      add("collect_events", "Stuck requests often wait for a pool thread: see whether the pool starves.",
        { kind = "threadpool", durationSeconds = WINDOW_S, processId = process_id })
      add("collect_events", "Or for a call to somebody else.", { kind = "networking", durationSeconds = WINDOW_S, processId = process_id })
    end
    add("query_snapshot", "See those above the threshold alone.", { handle = handle_id, view = "longRunning", topN = TOP })
  elseif process_id then
    add("collect_events", "Nothing is stuck: see how long requests take and whether they queue.",
      { kind = "kestrel", durationSeconds = WINDOW_S, processId = process_id })
  end
  add("query_snapshot", "See all requests in flight, oldest first.", { handle = handle_id, view = "requests", topN = TOP })
  return list
end

return M
