-- SPDX-License-Identifier: MIT
-- contention-snapshot/byCallSite: the methods that waited, those that waited longest first.
local view = require("lunette.view")
local wire = require("collectors.contention.wire")

return view {
  kind = "contention-snapshot", name = "byCallSite",
  project = function(artifact, opts)
    local rows = wire.call_sites(artifact, opts.topN)
    return { totalEvents = artifact.total, returned = #rows, callSites = rows },
      { summary = ("%d of %d call sites of %d contentions."):format(#rows, #artifact.sites, artifact.total) }
  end,
}
