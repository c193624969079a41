-- SPDX-License-Identifier: MIT
-- What to call after a window of lock contention.
local hint_rule = require("lunette.hint_rule")

local NOTHING <const> = { { field = "total", equals = 0 }, { field = "still.n", equals = 0 } }
local SOMETHING <const> = { { any = { { field = "total", above = 0 }, { field = "still.n", above = 0 } } } }

return hint_rule {
  handle = "contention-snapshot", order = 100,
  hints = {
    {
      when = NOTHING, tool = "collect_events",
      arguments = { kind = "counters", durationSeconds = 5, providers = { "System.Runtime" } },
      reason = "See whether monitor-lock-contention-count rises.",
    },
    { when = NOTHING, tool = "collect_thread_snapshot", reason = "See what the threads wait for." },
    {
      when = SOMETHING, tool = "query_snapshot", arguments = { view = "byCallSite", topN = 20 },
      reason = "See where threads wait for locks.",
    },
    {
      when = SOMETHING, tool = "query_snapshot", arguments = { view = "byBlame", topN = 20 },
      reason = "See which owners make others wait, and where those were.",
    },
    {
      when = SOMETHING, tool = "query_snapshot", arguments = { view = "byOwner", topN = 20 }, priority = "low",
      reason = "See which threads hold the locks.",
    },
  },
}
