-- SPDX-License-Identifier: MIT
-- gc-events/timeline: the completed collections in order of time, with the gaps between them.
local snapshot = require("collectors.gc.snapshot")
local view = require("lunette.view")

return view {
  kind = "gc-events", name = "timeline",
  project = function(artifact, opts)
    local rows = snapshot.timeline(artifact, opts.topN)
    return snapshot.measurement(artifact, { timeline = rows, returned = #rows }),
      { summary = ("%d of %d collections in order of time."):format(#rows, artifact.collections.total) }
  end,
}
