-- SPDX-License-Identifier: MIT
-- allocations-sampled-snapshot/bySite: which methods allocated, as estimates with their bounds, each with a stack that led there.
local view = require("lunette.view")
local wire = require("collectors.allocations_sampled.wire")

return view {
  kind = "allocations-sampled-snapshot", name = "bySite",
  project = function(artifact, opts)
    local payload = wire.head(artifact)
    payload.bySite = wire.sites(artifact, opts.topN, true)
    payload.returned, payload.sites = #payload.bySite, artifact.n_sites
    return setmetatable(payload, wire.VIEW_ORDER), { summary = ("%d of %d call sites."):format(payload.returned, artifact.n_sites) }
  end,
}
