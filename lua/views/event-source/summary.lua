-- SPDX-License-Identifier: MIT
-- event-source/summary: how often each event of the source came, the most frequent first.
local view = require("lunette.view")
local wire = require("collectors.event_source.wire")

return view {
  kind = "event-source", name = "summary",
  project = function(artifact, opts)
    local payload = wire.by_name(artifact, opts.topN)
    return payload, { summary = ("%d of %d kinds of events of %s."):format(#payload.byEventName, #artifact.groups, artifact.provider) }
  end,
}
