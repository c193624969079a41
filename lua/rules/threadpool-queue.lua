-- SPDX-License-Identifier: MIT
-- threadpool.queue: work waits for a thread of the pool. With slow requests and an idle CPU, work waits for something.
local rule = require("lunette.rule")

return rule {
  name = "threadpool.queue", order = 10, input = "queue", evidence = "threadpool-queue-length", unit = "items",
  levels = { elevated = 10 },
  summary = "The ThreadPool queue contained {value} work items.",
  rationale = "The queue crossed the observation threshold; one window may be transient.",
  next = { tool = "collect_thread_snapshot", reason = "A queue in one window is inconclusive: see what the threads do." },
  indicator = { name = "threadpool-queue-length", order = 30, from = { elevated = 10, high = 50, critical = 200 }, span = 300 },
  hypotheses = {
    {
      name = "work.waiting-or-backpressure", signals = { "threadpool.queue", "requests.p95" },
      unless = { "cpu.effective-core-consumption" }, confidence = "medium",
      summary = "Requests are slow while work queues and the CPU is nearly idle: work waits for something. What for, counters cannot tell.",
      requires = {
        {
          input = "cores", below = 0.2, unit = "cores", name = "cpu-usage",
          rationale = "Less than a fifth of one core is used: threads wait rather than compute.",
          unknown = {
            input = "cpu", below = 20, unit = "%", name = "cpu-usage", confidence = "low",
            rationale = "Little CPU; how many cores that is cannot be told: the target did not announce its processors.",
          },
        },
      },
      next = { tool = "collect_thread_snapshot", reason = "See where the threads wait." },
    },
  },
}
