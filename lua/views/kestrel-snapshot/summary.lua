-- SPDX-License-Identifier: MIT
-- kestrel-snapshot/summary: all counts and times, and the most frequent operations.
local json = require("lunette.json")
local view = require("lunette.view")
local wire = require("collectors.kestrel.wire")

return view {
  kind = "kestrel-snapshot", name = "summary",
  project = function(artifact, opts)
    local payload = wire.totals(artifact, {})
    payload.topOperations, payload.notes = wire.operations(artifact, opts.topN), json.array({ table.unpack(artifact.notes) })
    return payload, { summary = ("%d requests of %d operations."):format(artifact.requests.started, #artifact.operations) }
  end,
}
