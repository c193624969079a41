-- SPDX-License-Identifier: MIT
-- threadpool-snapshot/diff: the pool in several windows side by side. What the quality of a window does not support is absent there, not 0,
-- so that it drives no verdict.
local journey = require("lunette.journey")
local view = require("lunette.view")

local function comparable(artifact)
  local a, seconds, keys = artifact, artifact.duration_ms / 1000, {}
  local q, wait = a.quality, a.queue_wait or {}
  local function whole(n) return q.supports_absence and n or nil end -- needs a window in which nothing was missed
  local function rate(n) return seconds > 0 and whole(n) and n / seconds or nil end
  for _, origin in ipairs(a.origins) do keys[origin.method] = origin.count end
  return {
    keys = keys,
    metrics = {
      { name = "starvationAdjustments", value = whole(a.starvation), worse = "up" },
      { name = "cooperativeBlockingAdjustments", value = whole(a.blocking), worse = "up" },
      { name = "peakWorkerThreadCount", value = q.supports_regression and a.workers.peak or nil, worse = "up" },
      { name = "latestWorkerThreadCount", value = a.workers.latest },
      { name = "queueWaitP50Ms", unit = "ms", value = whole(wait.p50_ms) },
      { name = "queueWaitP95Ms", unit = "ms", value = whole(wait.p95_ms), worse = "up" },
      { name = "adjustmentsPerSecond", unit = "1/s", value = rate(a.n_adjustments) },
      { name = "enqueuedPerSecond", unit = "1/s", value = rate(a.enqueued) },
      { name = "dequeuedPerSecond", unit = "1/s", value = rate(a.dequeued) },
      { name = "windowSeconds", unit = "s", value = seconds },
    },
  }
end

return view {
  kind = "threadpool-snapshot", name = "diff",
  project = function(_, opts, entry) return journey.view(entry, opts, comparable) end,
}
