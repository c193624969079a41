-- SPDX-License-Identifier: MIT
-- contention-snapshot/byOwner: the threads that held the locks when others began to wait.
local view = require("lunette.view")
local wire = require("collectors.contention.wire")

return view {
  kind = "contention-snapshot", name = "byOwner",
  project = function(artifact, opts)
    local rows = wire.owners(artifact, opts.topN)
    return { totalEvents = artifact.total, returned = #rows, owners = rows },
      { summary = ("%d of %d owners of %d contentions."):format(#rows, #artifact.owners, artifact.total) }
  end,
}
