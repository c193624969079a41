-- SPDX-License-Identifier: MIT
-- exception-snapshot/byThrowSite: types by the method that threw, where the stack has names.
local rows = require("collectors.exceptions.rows")
local view = require("lunette.view")

return view {
  kind = "exception-snapshot", name = "byThrowSite",
  project = function(artifact, opts)
    local list = rows.wire_sites(artifact.sites, opts.topN)
    return { totalExceptions = artifact.total, resolvedExceptions = artifact.resolved, throwSites = list },
      { summary = ("%d of %d throw sites; %d of %d exceptions have a resolved stack."):format(#list, #artifact.sites, artifact.resolved,
        artifact.total) }
  end,
}
