-- SPDX-License-Identifier: MIT
-- What to call after a triage, beside the next steps of its hypotheses and signals: by the older verdict, and when no counter came.
local hint_rule = require("lunette.hint_rule")

return hint_rule {
  handle = "triage", order = 100,
  hints = {
    {
      when = { { field = "verdict", equals = "gc-pressure" } },
      tool = "inspect_heap", arguments = { source = "live" }, reason = "See what the heap holds.",
    },
    {
      when = { { field = "verdict", equals = "healthy" } },
      tool = "collect_events", arguments = { kind = "gc", durationSeconds = 10 },
      reason = "Nothing stands out in the counters: look at the collector next.",
    },
    {
      when = { { field = "observedSignals", count = true, equals = 0 }, { field = "verdict", is_not = "healthy" } },
      tool = "inspect_process", arguments = { view = "preflight" }, reason = "See why no counter came.",
    },
  },
}
