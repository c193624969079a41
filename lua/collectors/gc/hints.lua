-- SPDX-License-Identifier: MIT
-- What to call after a window of collections. Pauses are judged by the suspension stream, never by the time that collections took.
local hints = require("lunette.hints")

local M = {}

M.LONG_PAUSE_MS = 100
local WINDOW_S <const> = 10

--- Hints for a window, best first.
---@param artifact GcArtifact
---@param handle_id string?
---@param process_id integer?   nil for a recording: its process is gone
---@return table[]
function M.of(artifact, handle_id, process_id)
  local list, s = {}, artifact.suspensions
  local function add(tool, reason, arguments, priority) list[#list + 1] = hints.new(tool, reason, arguments, priority) end
  if s.status ~= "unavailable" and s.pause.max_ns > M.LONG_PAUSE_MS * 1000000 then
    add("collect_process_dump", ("A pause of %.0f ms: see what the heap holds."):format(s.pause.max_ns / 1e6),
      { dumpType = "WithHeap", processId = process_id }, "high")
  else
    add("collect_events", "No pause above 100 ms stands out: see whether the time goes to outbound HTTP.",
      { kind = "event_source", providerName = "System.Net.Http", durationSeconds = WINDOW_S, processId = process_id })
  end
  add("query_snapshot", "See how long the pauses were.", { handle = handle_id, view = "pauseHistogram" })
  if #artifact.heap.rows > 1 then
    add("query_snapshot", "See how the heap moved from collection to collection.", { handle = handle_id, view = "heap-stats" }, "low")
  end
  return list
end

return M
