-- SPDX-License-Identifier: MIT
-- http-phases-snapshot/slowest: the requests that took longest, with all their phases and waits.
local view = require("lunette.view")
local wire = require("collectors.http_phases.wire")

return view {
  kind = "http-phases-snapshot", name = "slowest",
  project = function(artifact, opts)
    local rows = wire.requests(artifact, artifact.slowest, opts.topN)
    return { total = artifact.ended, returned = #rows, requests = rows },
      { summary = ("The %d slowest of %d requests."):format(#rows, artifact.ended) }
  end,
}
