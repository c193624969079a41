-- SPDX-License-Identifier: MIT
-- What to call after a window of runtime metrics: by the newest values.
local hint_rule = require("lunette.hint_rule")

local function share_of_heap(field)
  return { from = { { field = field }, { field = "current.heap" } }, as = "share" }
end

return hint_rule {
  handle = "runtime-metrics-snapshot", order = 100, lead = true,
  hints = {
    {
      when = { { field = "current.allocation_rate", scale = 1e-6, above = 50 } },
      tool = "collect_events", arguments = { kind = "allocations-sampled", durationSeconds = 10 },
      reason = "Over {threshold} MB/s are allocated: see which types and call sites allocate (.NET 10; before it collect_sample "
        .. "kind=allocation).",
    },
    {
      when = {
        { field = "current.fragmentation", scale = 1e-6, above = 50 },
        { input = share_of_heap("current.fragmentation"), above = 0.3 },
      },
      tool = "inspect_heap", arguments = { source = "live" },
      reason = "Over 30 % of the heap is free space between objects: see what pins it.",
    },
    {
      when = { { field = "current.loh", scale = 1e-6, above = 100 }, { input = share_of_heap("current.loh"), above = 0.5 } },
      tool = "collect_events", arguments = { kind = "gc", durationSeconds = 10 },
      reason = "More than half of the heap are large objects: see how often generation 2 is collected for them.",
    },
    { tool = "query_snapshot", arguments = { view = "timeline" }, reason = "See the values of each interval." },
    {
      tool = "collect_events", arguments = { kind = "gc", durationSeconds = 10 }, priority = "low",
      reason = "See the collections behind these sizes.",
    },
  },
}
