-- SPDX-License-Identifier: MIT
-- What to call after a window of activities.
local hint_rule = require("lunette.hint_rule")

local function slowest_ms(artifact)
  local ms = 0
  for _, row in ipairs(artifact.by_operation) do ms = math.max(ms, row.max_ms) end
  return ms
end

-- The trace that holds the slowest of the kept spans, or else nil.
local function slowest_trace(artifact)
  local best
  for _, s in ipairs(artifact.spans) do
    if s.trace_id and s.took_ns and (not best or s.took_ns > best.took_ns) then best = s end
  end
  return best and best.trace_id or nil
end

return hint_rule {
  handle = "activities", order = 100,
  hints = {
    {
      when = { { of = slowest_ms, above = 250 } }, tool = "collect_sample", arguments = { kind = "cpu", durationSeconds = 10 },
      reason = "An operation took {value:%.0f} ms: see whether it ran or waited.",
    },
    {
      otherwise = true, tool = "collect_events", arguments = { kind = "counters" },
      reason = "No operation took long: see what the runtime's counters say.",
    },
    {
      tool = "query_snapshot", arguments = { view = "byOperation", topN = 20 },
      reason = "See how often each operation ran and how long it took.",
    },
    {
      when = { { of = slowest_trace, measured = true } }, tool = "query_snapshot",
      arguments = function(artifact) return { view = "trace", traceId = slowest_trace(artifact) } end,
      reason = "See the trace of the slowest span kept, with what was left of each span beside its children.",
    },
  },
}
