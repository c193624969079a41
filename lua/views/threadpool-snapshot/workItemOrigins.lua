-- SPDX-License-Identifier: MIT
-- threadpool-snapshot/workItemOrigins: who queued work, most first, each with its most frequent stack.
local snapshot = require("collectors.threadpool.snapshot")
local view = require("lunette.view")

return view {
  kind = "threadpool-snapshot", name = "workItemOrigins",
  project = function(artifact, opts)
    local rows = snapshot.origins(artifact, opts.topN, true)
    return {
      totalEnqueueEvents = artifact.enqueued, returned = #rows, origins = rows,
      quality = snapshot.quality(artifact, #rows < #artifact.origins),
    }, {
      summary = #rows > 0 and ("%d of %d origins of %d queued work items."):format(#rows, #artifact.origins, artifact.enqueued)
        or "No origin of queued work is known; see the notes of the summary view.",
    }
  end,
}
