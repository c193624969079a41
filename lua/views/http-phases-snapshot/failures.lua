-- SPDX-License-Identifier: MIT
-- http-phases-snapshot/failures: requests that failed, the first ones of the window, with the phase in which they did.
local view = require("lunette.view")
local wire = require("collectors.http_phases.wire")

return view {
  kind = "http-phases-snapshot", name = "failures",
  project = function(artifact, opts)
    local rows = wire.requests(artifact, artifact.failures, opts.topN)
    return { total = artifact.failures_seen, returned = #rows, failedIn = wire.failed_in(artifact), requests = rows },
      { summary = ("%d of %d failed requests."):format(#rows, artifact.failures_seen) }
  end,
}
