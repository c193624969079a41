-- SPDX-License-Identifier: MIT
-- http-phases-snapshot/inFlight: requests that had not ended with the window, oldest first, and where they stood.
local view = require("lunette.view")
local wire = require("collectors.http_phases.wire")

return view {
  kind = "http-phases-snapshot", name = "inFlight",
  project = function(artifact, opts)
    local rows = wire.requests(artifact, artifact.in_flight, opts.topN)
    return { total = artifact.n_in_flight, returned = #rows, requests = rows },
      { summary = ("%d of %d requests in flight at the end of the window."):format(#rows, artifact.n_in_flight) }
  end,
}
