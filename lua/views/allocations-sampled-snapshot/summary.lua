-- SPDX-License-Identifier: MIT
-- allocations-sampled-snapshot/summary: what was allocated, by type, as estimates with their bounds; the heaviest first.
local view = require("lunette.view")
local wire = require("collectors.allocations_sampled.wire")

return view {
  kind = "allocations-sampled-snapshot", name = "summary",
  project = function(artifact, opts)
    local payload = wire.head(artifact)
    payload.byType = wire.types(artifact, opts.topN)
    payload.returned, payload.types = #payload.byType, artifact.n_types
    return setmetatable(payload, wire.VIEW_ORDER), { summary = ("%d of %d types."):format(payload.returned, artifact.n_types) }
  end,
}
