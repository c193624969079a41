-- SPDX-License-Identifier: MIT
-- What to call after a window of sampled allocations.
local hint_rule = require("lunette.hint_rule")

return hint_rule {
  handle = "allocations-sampled-snapshot", order = 100,
  hints = {
    {
      when = { { field = "total.samples", above = 0 } }, tool = "query_snapshot", arguments = { view = "bySite" }, priority = "high",
      reason = "See which methods allocate, with stacks.",
    },
    { tool = "query_snapshot", arguments = { view = "summary" }, reason = "See all types with their bounds." },
    {
      tool = "collect_events", arguments = { kind = "gc", durationSeconds = 10 }, reason = "See what the garbage collector does with it.",
    },
  },
}
