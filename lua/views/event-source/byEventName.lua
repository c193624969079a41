-- SPDX-License-Identifier: MIT
-- event-source/byEventName: how often each event of the source came, the most frequent first; all of them.
local view = require("lunette.view")
local wire = require("collectors.event_source.wire")

return view {
  kind = "event-source", name = "byEventName",
  project = function(artifact)
    local payload = wire.by_name(artifact)
    return payload, { summary = ("%d of %d kinds of events of %s."):format(#payload.byEventName, #artifact.groups, artifact.provider) }
  end,
}
