-- SPDX-License-Identifier: MIT
-- threadpool-snapshot/hillClimbing: the changes of the pool's size in order of time, with the reasons that the runtime gave.
local snapshot = require("collectors.threadpool.snapshot")
local view = require("lunette.view")

return view {
  kind = "threadpool-snapshot", name = "hillClimbing",
  project = function(artifact, opts)
    local rows = snapshot.samples(artifact, opts.topN)
    return { returned = #rows, samples = rows, quality = snapshot.quality(artifact, #rows < #artifact.adjustments) },
      { summary = ("The last %d of %d changes of the pool's size."):format(#rows, artifact.n_adjustments) }
  end,
}
