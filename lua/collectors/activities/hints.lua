-- SPDX-License-Identifier: MIT
-- What to call after a window of activities.
local hints = require("lunette.hints")

local M = {}

local WINDOW_S <const> = 10
local SLOW_MS <const> = 250
local TOP <const> = 20

-- The trace that holds the slowest of the kept spans, or else nil.
local function slowest_trace(artifact)
  local best
  for _, s in ipairs(artifact.spans) do
    if s.trace_id and s.took_ns and (not best or s.took_ns > best.took_ns) then best = s end
  end
  return best and best.trace_id or nil
end

--- Hints for a window, best first.
---@param artifact table
---@param handle_id string?
---@param process_id integer?   nil for a recording: its process is gone
---@return table[]
function M.of(artifact, handle_id, process_id)
  local list = {}
  local function add(tool, reason, arguments, priority) list[#list + 1] = hints.new(tool, reason, arguments, priority) end
  local slowest = 0
  for _, row in ipairs(artifact.by_operation) do slowest = math.max(slowest, row.max_ms) end
  if slowest > SLOW_MS then
    add("collect_sample", ("An operation took %.0f ms: see whether it ran or waited."):format(slowest),
      { kind = "cpu", durationSeconds = WINDOW_S, processId = process_id })
  else
    add("collect_events", "No operation took long: see what the runtime's counters say.",
      { kind = "counters", processId = process_id })
  end
  add("query_snapshot", "See how often each operation ran and how long it took.",
    { handle = handle_id, view = "byOperation", topN = TOP })
  local trace = slowest_trace(artifact)
  if trace then
    add("query_snapshot", "See the trace of the slowest span kept, with what was left of each span beside its children.",
      { handle = handle_id, view = "trace", traceId = trace })
  end
  return list
end

return M
