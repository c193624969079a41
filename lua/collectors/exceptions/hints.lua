-- SPDX-License-Identifier: MIT
-- What to call after a window of exceptions.
local hints = require("lunette.hints")

local M = {}

local WINDOW_S <const> = 10
local TOP <const> = 20

--- Hints for a window, best first.
---@param artifact { total: integer, resolved: integer }
---@param handle_id string?
---@param process_id integer?   nil for a recording: its process is gone
---@return table[]
function M.of(artifact, handle_id, process_id)
  local list = {}
  if artifact.resolved > 0 then
    list[1] = hints.new("query_snapshot", "See which methods throw.", { handle = handle_id, view = "byThrowSite", topN = TOP })
  end
  if artifact.total > 0 then
    list[#list + 1] = hints.new("collect_events", "See whether outgoing HTTP calls fail in the same way.",
      { kind = "event_source", providerName = "System.Net.Http", durationSeconds = WINDOW_S, processId = process_id })
  else
    list[1] = hints.new("collect_events", "Nothing was thrown: look at the garbage collector next.",
      { kind = "gc", durationSeconds = WINDOW_S, processId = process_id })
  end
  list[#list + 1] = hints.new("query_snapshot", "See the counts of all types.", { handle = handle_id, view = "byType", topN = TOP }, "low")
  return list
end

return M
