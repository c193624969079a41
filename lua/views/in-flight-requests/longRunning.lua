-- SPDX-License-Identifier: MIT
-- in-flight-requests/longRunning: those above the threshold alone, oldest first.
local view = require("lunette.view")
local wire = require("collectors.requests.wire")

return view {
  kind = "in-flight-requests", name = "longRunning",
  project = function(artifact, opts)
    local rows = wire.rows(artifact, opts.topN, true)
    return {
      inFlightCount = artifact.in_flight, longRunningCount = artifact.long_running, returned = #rows, requests = rows,
    }, { summary = ("%d of %d requests in flight."):format(#rows, artifact.in_flight) }
  end,
}
