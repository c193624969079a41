-- SPDX-License-Identifier: MIT
-- threadpool.starvation: so much work waits that every item is late. With CPU to spare, something blocks the pool's threads.
local rule = require("lunette.rule")

return rule {
  name = "threadpool.starvation", order = 20, input = "queue", evidence = "threadpool-queue-length", unit = "items",
  levels = { elevated = 50, critical = 200 },
  summary = "{value} work items wait for a ThreadPool thread.",
  rationale = "A queue of this length delays every item by far more than it runs.",
  next = {
    tool = "collect_events", arguments = { kind = "threadpool", durationSeconds = 10 },
    reason = "See how the pool grows and what is queued.",
  },
  verdict = { name = "threadpool-starvation", order = 60 },
  hypotheses = {
    {
      name = "threadpool.workers-held", unless = { "cpu.effective-core-consumption" }, confidence = "low",
      summary = "Work items wait although there is CPU to spare: the pool's threads are held by something that blocks them.",
      requires = {
        {
          input = "cores", below = 0.8, unit = "cores", name = "cpu-usage",
          rationale = "No core is near saturation: threads are held rather than computing.",
          unknown = {
            input = "cpu", below = 20, unit = "%", name = "cpu-usage", confidence = "low",
            rationale = "Little CPU; how many cores that is cannot be told: the target did not announce its processors.",
          },
        },
      },
      stronger = {
        confidence = "medium",
        when = {
          {
            input = "pool_threads_added", at_least = 1, unit = "threads", name = "threadpool-thread-count",
            rationale = "The pool adds threads because none comes free.",
          },
        },
      },
      next = {
        tool = "collect_events", arguments = { kind = "threadpool", durationSeconds = 10 },
        reason = "See how the pool grows and what is queued.",
      },
    },
  },
}
