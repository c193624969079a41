-- SPDX-License-Identifier: MIT
-- threadpool.queue-wait: work items waited long for a pool thread, whatever the runtime calls it. Measured from their entering the queue to
-- their leaving it, for those that were seen doing both.
local signal = require("lunette.signal")

return signal {
  id = "threadpool.queue-wait", handle = "threadpool-snapshot", order = 20,
  emit_at = 250, -- ms: one in twenty waited longer
  limits = { full_at = 1000, min_items = 10 },
  of = function(artifact, self)
    local wait = artifact.queue_wait
    if not wait or wait.n < self.limits.min_items or wait.p95_ms < self.emit_at then return nil end
    local buckets = {}
    for i, row in ipairs { { "p50", wait.p50_ms }, { "p95", wait.p95_ms }, { "max", wait.max_ms } } do
      buckets[i] = { key = row[1], magnitude = math.floor(row[2] + 0.5), unit = "ms" }
    end
    return {
      summary = ("Half of %d work items waited %.0f ms or more for a pool thread, one in twenty %.0f ms or more%s."):format(wait.n,
        wait.p50_ms, wait.p95_ms, wait.not_dequeued > 0 and ("; %d more still wait"):format(wait.not_dequeued) or ""),
      salience = wait.p95_ms / self.limits.full_at, buckets = buckets,
    }
  end,
  next = { view = "workItemOrigins", reason = "See who queues work.", arguments = { topN = 20 } },
}
