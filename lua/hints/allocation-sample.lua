-- SPDX-License-Identifier: MIT
-- What to call after a window of allocation ticks.
local hint_rule = require("lunette.hint_rule")

return hint_rule {
  handle = "allocation-sample", order = 100,
  hints = {
    {
      tool = "query_snapshot", arguments = { view = "call-tree", maxDepth = 8, maxNodes = 200 }, priority = "high",
      reason = "See who allocates, and who calls them.",
    },
    { tool = "collect_sample", arguments = { kind = "cpu" }, reason = "See whether the same code leads the stack samples." },
    { tool = "collect_events", arguments = { kind = "gc" }, reason = "See what the garbage collector does with it." },
  },
}
