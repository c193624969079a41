-- SPDX-License-Identifier: MIT
-- event-source/events: the stored events with their payloads, in order of time.
local numbers = require("lunette.numbers")
local view = require("lunette.view")
local wire = require("collectors.event_source.wire")

return view {
  kind = "event-source", name = "events",
  project = function(artifact, opts)
    local rows = wire.events(artifact, opts.topN)
    return { provider = artifact.provider, totalEvents = numbers.count(artifact.total), returned = #rows, events = rows },
      { summary = ("%d of %d stored events of %s."):format(#rows, #artifact.events, artifact.provider) }
  end,
}
