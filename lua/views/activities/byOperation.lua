-- SPDX-License-Identifier: MIT
-- activities/byOperation: sums by source and operation, most frequent first.
local view = require("lunette.view")
local wire = require("collectors.activities.wire")

return view {
  kind = "activities", name = "byOperation",
  project = function(artifact, opts)
    local rows = wire.by_operation(artifact, opts.topN)
    return wire.grouped(artifact, "operations", rows), { summary = ("%d of %d operations."):format(#rows, #artifact.by_operation) }
  end,
}
