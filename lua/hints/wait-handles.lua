-- SPDX-License-Identifier: MIT
-- What to call after a window of waits.
local hint_rule = require("lunette.hint_rule")

return hint_rule {
  handle = "wait-handles-snapshot", order = 100,
  hints = {
    {
      when = { { field = "where", count = true, above = 0 } }, tool = "query_snapshot",
      arguments = { view = "whereThreadsWait", topN = 20 }, reason = "See where threads wait, for handles and for locks.",
    },
    {
      when = { { field = "sites", count = true, above = 0 } }, tool = "query_snapshot", arguments = { view = "byCallSite", topN = 20 },
      reason = "See the stacks of the waits.",
    },
    {
      when = { { field = "inside.n", above = 0 } }, tool = "collect_events", arguments = { kind = "contention" },
      reason = "Locks are contended: see which owners make others wait.",
    },
    { otherwise = true, tool = "collect_thread_snapshot", reason = "No wait ended: see what the threads wait for now." },
  },
}
