-- SPDX-License-Identifier: MIT
-- http-phases-snapshot/redirects: what was redirected, where to, and what both legs took; the dearest first.
local view = require("lunette.view")
local wire = require("collectors.http_phases.wire")

return view {
  kind = "http-phases-snapshot", name = "redirects",
  project = function(artifact, opts)
    local rows = wire.redirects(artifact, opts.topN)
    return { total = artifact.redirects_seen, returned = #rows, byStatus = wire.redirect_statuses(artifact), redirects = rows },
      { summary = ("%d of %d redirects of %d requests."):format(#rows, artifact.redirects_seen, artifact.redirected) }
  end,
}
