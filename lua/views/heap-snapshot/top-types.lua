-- SPDX-License-Identifier: MIT
-- heap-snapshot/top-types: types by the bytes or the number of their objects.
local artifacts = require("heap.artifact")
local view = require("lunette.view")
local wire = require("heap.wire")

return view {
  kind = "heap-snapshot", name = "top-types",
  project = function(artifact, options)
    local rows, all = artifact.graph:types { by = options.rankBy, top = options.topN }
    return wire.type_stats(artifact, rows), {
      fields = { rankBy = options.rankBy, quality = artifacts.quality(artifact, all > #rows) },
      summary = ("%d of %d types by %s."):format(#rows, all, options.rankBy),
    }
  end,
}
