-- SPDX-License-Identifier: MIT
-- kestrel-snapshot/byOperation: requests by method, path and version, most frequent first.
local view = require("lunette.view")
local wire = require("collectors.kestrel.wire")

return view {
  kind = "kestrel-snapshot", name = "byOperation",
  project = function(artifact, opts)
    local list = wire.operations(artifact, opts.topN)
    return { returned = #list, operations = list }, { summary = ("%d of %d operations."):format(#list, #artifact.operations) }
  end,
}
