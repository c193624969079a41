-- SPDX-License-Identifier: MIT
-- threadpool-snapshot/timeline: thread counts by the second, each with where it comes from.
local snapshot = require("collectors.threadpool.snapshot")
local view = require("lunette.view")

return view {
  kind = "threadpool-snapshot", name = "timeline",
  project = function(artifact)
    local workers = snapshot.buckets(artifact, artifact.workers)
    return {
      workerThreads = workers, iocpThreads = snapshot.buckets(artifact, artifact.iocp), quality = snapshot.quality(artifact),
    }, {
      summary = #workers > 0 and ("%d seconds with a known number of worker threads, %d at most."):format(#workers, artifact.workers.peak)
        or "The runtime told no number of threads in this window.",
    }
  end,
}
