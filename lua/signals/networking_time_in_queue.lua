-- SPDX-License-Identifier: MIT
-- networking.time-in-queue: whether waiting for a connection stands for much of what requests take. A grouping, never a diagnosis.
local signal = require("lunette.signal")

return signal {
  id = "networking.time-in-queue", handle = "networking-snapshot", order = 10,
  emit_at = 0.5, -- share of the time of all requests
  limits = {
    min_waiting = 5, -- requests that waited: fewer are no crowd
    min_p95_ms = 10, -- less is no matter, whatever its share
  },
  of = function(artifact, self)
    local queue, http = artifact.queue.time, artifact.http.time
    if not queue or not http or queue.n < self.limits.min_waiting or queue.p95 < self.limits.min_p95_ms then return nil end
    local waited, all = queue.mean * queue.n, http.mean * http.n / 1e6
    local share = all > 0 and math.min(1, waited / all) or 0
    if share < self.emit_at then return nil end
    return {
      summary = ("%.0f %% of the time of %d requests is waiting for a connection: %d of them waited, p95 %.1f ms."):format(100 * share,
        http.n, queue.n, queue.p95),
      salience = share,
      buckets = {
        { key = "waiting for a connection", magnitude = waited, unit = "ms" },
        { key = "all else", magnitude = math.max(0, all - waited), unit = "ms" },
      },
    }
  end,
  next = { view = "queue", reason = "See the times in the queue." },
}
