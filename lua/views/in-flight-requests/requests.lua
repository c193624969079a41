-- SPDX-License-Identifier: MIT
-- in-flight-requests/requests: all that were in flight, oldest first.
local view = require("lunette.view")
local wire = require("collectors.requests.wire")

return view {
  kind = "in-flight-requests", name = "requests",
  project = function(artifact, opts)
    local rows = wire.rows(artifact, opts.topN, false)
    return {
      inFlightCount = artifact.in_flight, longRunningCount = artifact.long_running, returned = #rows, requests = rows,
    }, { summary = ("%d of %d requests in flight."):format(#rows, artifact.in_flight) }
  end,
}
