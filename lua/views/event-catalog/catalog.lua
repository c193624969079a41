-- SPDX-License-Identifier: MIT
-- event-catalog/catalog: which events came, by provider, name and level, the most frequent first.
local view = require("lunette.view")
local wire = require("collectors.catalog.wire")

return view {
  kind = "event-catalog", name = "catalog",
  project = function(artifact, opts)
    local rows, matching = wire.list(artifact.catalog, wire.row, opts.topN, wire.filter(opts.providerFilter, opts.rootMethodFilter))
    return { returned = #rows, catalog = rows }, { summary = ("%d of %d kinds of events."):format(#rows, matching) }
  end,
}
