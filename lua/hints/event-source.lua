-- SPDX-License-Identifier: MIT
-- What to call after a window of one event source.
local hint_rule = require("lunette.hint_rule")

return hint_rule {
  handle = "event-source", order = 100,
  hints = {
    { tool = "query_snapshot", arguments = { view = "byEventName" }, priority = "high", reason = "See how often each event came." },
    { tool = "query_snapshot", arguments = { view = "events" }, reason = "See the stored events with their payload." },
    {
      tool = "collect_events", arguments = { kind = "counters" },
      reason = "See what the runtime's counters say of the same process.",
    },
  },
}
