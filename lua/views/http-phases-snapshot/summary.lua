-- SPDX-License-Identifier: MIT
-- http-phases-snapshot/summary: how many requests, what their time went to, by host, failures and redirects.
local view = require("lunette.view")
local wire = require("collectors.http_phases.wire")

return view {
  kind = "http-phases-snapshot", name = "summary",
  project = function(artifact, opts)
    return wire.summary(artifact, opts.topN), { summary = wire.sentence(artifact, { path = artifact.origin == "trace" }) }
  end,
}
