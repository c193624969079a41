-- SPDX-License-Identifier: MIT
-- kestrel-snapshot/queues: both queue lengths over time, and their peaks.
local view = require("lunette.view")
local wire = require("collectors.kestrel.wire")

return view {
  kind = "kestrel-snapshot", name = "queues",
  project = function(artifact)
    local payload = wire.peaks(artifact, {})
    payload.points = wire.points(artifact)
    return payload, { summary = ("At most %g connections and %g requests queued, by %d readings."):format(artifact.peaks.connection,
      artifact.peaks.request, #payload.points) }
  end,
}
