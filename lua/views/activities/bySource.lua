-- SPDX-License-Identifier: MIT
-- activities/bySource: sums by ActivitySource, most frequent first.
local view = require("lunette.view")
local wire = require("collectors.activities.wire")

return view {
  kind = "activities", name = "bySource",
  project = function(artifact, opts)
    local rows = wire.by_source(artifact, opts.topN)
    return wire.grouped(artifact, "sources", rows), { summary = ("%d of %d sources."):format(#rows, #artifact.by_source) }
  end,
}
