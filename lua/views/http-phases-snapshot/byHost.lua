-- SPDX-License-Identifier: MIT
-- http-phases-snapshot/byHost: hosts by the time of the requests to them, and the part that most of it went to.
local view = require("lunette.view")
local wire = require("collectors.http_phases.wire")

return view {
  kind = "http-phases-snapshot", name = "byHost",
  project = function(artifact, opts)
    local rows = wire.hosts(artifact, opts.topN)
    return { total = #artifact.hosts, returned = #rows, hosts = rows },
      { summary = ("%d of %d hosts."):format(#rows, #artifact.hosts) }
  end,
}
