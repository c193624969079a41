-- SPDX-License-Identifier: MIT
-- networking-snapshot/byOperation: outgoing requests by scheme, host and port, those with most first.
local view = require("lunette.view")
local wire = require("collectors.networking.wire")

return view {
  kind = "networking-snapshot", name = "byOperation",
  project = function(artifact, opts)
    local rows = wire.operations(artifact, opts.topN)
    return wire.quality(artifact, { returned = #rows, operations = rows }),
      { summary = ("%d of %d operations of %d requests."):format(#rows, #artifact.operations, artifact.http.started) }
  end,
}
