-- SPDX-License-Identifier: MIT
-- exception-snapshot/byType: all types, most frequent first.
local rows = require("collectors.exceptions.rows")
local view = require("lunette.view")

return view {
  kind = "exception-snapshot", name = "byType",
  project = function(artifact)
    return { totalExceptions = artifact.total, byType = rows.wire_counts(artifact.by_type) },
      { summary = ("%d exceptions of %d types."):format(artifact.total, #artifact.by_type) }
  end,
}
