-- SPDX-License-Identifier: MIT
-- db-snapshot/n+1: commands that repeat under one parent, most often first.
local view = require("lunette.view")
local wire = require("collectors.db.wire")

return view {
  kind = "db-snapshot", name = "n+1",
  project = function(artifact, opts)
    local rows = wire.incidents(artifact, opts.topN)
    return { totalIncidents = #artifact.incidents, returned = #rows, incidents = rows },
      { summary = ("%d of %d incidents."):format(#rows, #artifact.incidents) }
  end,
}
