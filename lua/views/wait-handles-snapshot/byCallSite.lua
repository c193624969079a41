-- SPDX-License-Identifier: MIT
-- wait-handles-snapshot/byCallSite: the methods that waited, with the stack that waited longest; those for want of work last.
local view = require("lunette.view")
local wire = require("collectors.wait_handles.wire")

return view {
  kind = "wait-handles-snapshot", name = "byCallSite",
  project = function(artifact, opts)
    local rows = wire.call_sites(artifact, opts.topN)
    return { totalWaits = artifact.total, returned = #rows, callSites = rows },
      { summary = ("%d of %d call sites of %d waits."):format(#rows, #artifact.sites, artifact.total) }
  end,
}
