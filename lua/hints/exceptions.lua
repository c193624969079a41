-- SPDX-License-Identifier: MIT
-- What to call after a window of exceptions.
local hint_rule = require("lunette.hint_rule")

return hint_rule {
  handle = "exception-snapshot", order = 100,
  hints = {
    {
      when = { { field = "resolved", above = 0 } }, tool = "query_snapshot", arguments = { view = "byThrowSite", topN = 20 },
      reason = "See which methods throw.",
    },
    {
      when = { { field = "total", above = 0 } }, tool = "collect_events",
      arguments = { kind = "event_source", providerName = "System.Net.Http", durationSeconds = 10 },
      reason = "See whether outgoing HTTP calls fail in the same way.",
    },
    {
      when = { { field = "total", equals = 0 } }, tool = "collect_events", arguments = { kind = "gc", durationSeconds = 10 },
      reason = "No exception was seen: look at the garbage collector next.",
    },
    {
      tool = "query_snapshot", arguments = { view = "byType", topN = 20 }, priority = "low", reason = "See the counts of all types.",
    },
  },
}
