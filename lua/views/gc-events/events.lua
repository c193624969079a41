-- SPDX-License-Identifier: MIT
-- gc-events/events: the completed collections with the time that each took. Elapsed, never a pause.
local snapshot = require("collectors.gc.snapshot")
local view = require("lunette.view")

return view {
  kind = "gc-events", name = "events",
  project = function(artifact, opts)
    local rows = snapshot.timeline(artifact, opts.topN)
    return snapshot.measurement(artifact, { events = rows, returned = #rows }),
      { summary = ("The first %d of %d collections."):format(#rows, artifact.collections.total) }
  end,
}
