-- SPDX-License-Identifier: MIT
-- threadpool-snapshot/summary: latest and highest thread counts, causal counts, limits and the main origins of work.
local json = require("lunette.json")
local snapshot = require("collectors.threadpool.snapshot")
local view = require("lunette.view")

return view {
  kind = "threadpool-snapshot", name = "summary",
  project = function(artifact, opts)
    local workers, iocp = artifact.workers, artifact.iocp
    return {
      latestWorkerThreadCount = workers.latest, peakWorkerThreadCount = workers.peak, latestIocpThreadCount = iocp.latest,
      peakIocpThreadCount = iocp.peak, hillClimbingEvents = artifact.n_adjustments, starvationAdjustments = artifact.starvation,
      totalEnqueueEvents = artifact.enqueued, totalDequeueEvents = artifact.dequeued, queueWait = snapshot.queue_wait(artifact),
      effectiveSettings = snapshot.settings(artifact), topWorkItemOrigins = snapshot.origins(artifact, opts.topN),
      notes = json.array({ table.unpack(artifact.notes) }), quality = snapshot.quality(artifact), evidence = snapshot.evidence(artifact),
    }, {
      summary = ("%d changes of the pool's size, %d of them for starvation; %d work items queued."):format(artifact.n_adjustments,
        artifact.starvation, artifact.enqueued),
    }
  end,
}
