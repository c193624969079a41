-- SPDX-License-Identifier: MIT
-- lock.contention: threads wait for monitors. Live, four threads on one monitor make 200 to 900 an interval, an idle or a busy healthy
-- process none to a few.
local rule = require("lunette.rule")

return rule {
  name = "lock.contention", order = 60, input = "contentions",
  evidence = "monitor-lock-contention-count", unit = "contentions per interval",
  levels = { elevated = 10, high = 100 },
  summary = "Threads had to wait for a monitor {value} times an interval.",
  rationale = "Each contention is a thread that could not go on; a hundred an interval are no accident.",
  next = {
    tool = "collect_events", arguments = { kind = "contention", durationSeconds = 10 }, reason = "See which locks are waited for.",
  },
  indicator = {
    name = "monitor-lock-contention-count", order = 40, unit = "contentions", from = { elevated = 3, high = 10, critical = 50 }, span = 50,
  },
  verdict = { name = "lock-contention", worst = "Degraded", order = 70 },
  hypotheses = {
    {
      name = "locks.threads-queue-up", confidence = "low",
      summary = "Threads keep waiting for monitors that others hold. How long they wait, counters do not tell.",
      stronger = {
        confidence = "medium",
        when = {
          {
            input = "contentions", at_least = 100, unit = "contentions per interval", name = "monitor-lock-contention-count",
            rationale = "Waits come all the time, not now and then.",
          },
        },
      },
      contradicts = {
        {
          input = "cpu", at_least = 70, unit = "%", name = "cpu-usage",
          rationale = "The processors are busy: holders of locks may just lack CPU.",
        },
      },
      next = {
        tool = "collect_events", arguments = { kind = "contention", durationSeconds = 10 },
        reason = "See which locks, who holds them, and for how long.",
      },
    },
  },
}
