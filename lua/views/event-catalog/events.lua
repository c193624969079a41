-- SPDX-License-Identifier: MIT
-- event-catalog/events: the first occurrences of the window, in order of time, without payloads.
local view = require("lunette.view")
local wire = require("collectors.catalog.wire")

return view {
  kind = "event-catalog", name = "events",
  project = function(artifact, opts)
    local rows, matching = wire.list(artifact.sample, wire.occurrence, opts.topN, wire.filter(opts.providerFilter, opts.rootMethodFilter))
    return { returned = #rows, events = rows }, { summary = ("%d of %d kept occurrences."):format(#rows, matching) }
  end,
}
