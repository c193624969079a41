-- SPDX-License-Identifier: MIT
-- exception-snapshot/summary: the most frequent types.
local rows = require("collectors.exceptions.rows")
local view = require("lunette.view")

return view {
  kind = "exception-snapshot", name = "summary",
  project = function(artifact, opts)
    local counts = rows.wire_counts(artifact.by_type, opts.topN)
    return { totalExceptions = artifact.total, byType = counts },
      { summary = ("%d exceptions, %d of %d types."):format(artifact.total, #counts, #artifact.by_type) }
  end,
}
