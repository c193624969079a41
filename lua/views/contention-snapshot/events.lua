-- SPDX-License-Identifier: MIT
-- contention-snapshot/events: contentions one by one, the longest first.
local view = require("lunette.view")
local wire = require("collectors.contention.wire")

return view {
  kind = "contention-snapshot", name = "events",
  project = function(artifact, opts)
    local rows = wire.events(artifact, opts.topN)
    return { totalEvents = artifact.total, returned = #rows, events = rows },
      { summary = ("The %d longest of %d contentions."):format(#rows, artifact.total) }
  end,
}
