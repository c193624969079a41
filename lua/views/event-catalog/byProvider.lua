-- SPDX-License-Identifier: MIT
-- event-catalog/byProvider: how many events each provider wrote, and of how many kinds.
local view = require("lunette.view")
local wire = require("collectors.catalog.wire")

return view {
  kind = "event-catalog", name = "byProvider",
  project = function(artifact, opts)
    local rows, matching = wire.list(wire.by_provider(artifact.catalog), wire.group, opts.topN, function(g)
      return g.provider:lower():find((opts.providerFilter or ""):lower(), 1, true) ~= nil
    end)
    return { returned = #rows, providers = rows }, { summary = ("%d of %d providers."):format(#rows, matching) }
  end,
}
