-- SPDX-License-Identifier: MIT
-- What to call after a threadpool window.
local hint_rule = require("lunette.hint_rule")

return hint_rule {
  handle = "threadpool-snapshot", order = 100,
  hints = {
    { tool = "query_snapshot", arguments = { view = "timeline" }, reason = "See how many threads the pool had, second by second." },
    {
      tool = "query_snapshot", arguments = { view = "hillClimbing" },
      reason = "See each change of the pool's size and the reason that the runtime gave.",
    },
    { tool = "query_snapshot", arguments = { view = "workItemOrigins", topN = 20 }, reason = "See who queues work." },
    {
      when = { { any = { { signal = "threadpool.starvation" }, { signal = "threadpool.queue-wait" } } } }, live = true,
      tool = "collect_events", arguments = { kind = "wait-handles", durationSeconds = 10 },
      reason = "See where threads wait, for handles and for locks (.NET 9 and later).",
    },
    {
      when = { { signal = "threadpool.starvation" } }, live = true, tool = "collect_thread_snapshot",
      reason = "See what the blocked pool threads wait for.",
    },
  },
}
