-- SPDX-License-Identifier: MIT
-- in-flight-requests/summary: the counts and the oldest requests.
local json = require("lunette.json")
local view = require("lunette.view")
local wire = require("collectors.requests.wire")

return view {
  kind = "in-flight-requests", name = "summary",
  project = function(artifact, opts)
    local payload = wire.counts(artifact)
    payload.requests, payload.notes = wire.rows(artifact, opts.topN), json.array({ table.unpack(artifact.notes) })
    return payload, { summary = ("%d requests in flight, %d of them long-running."):format(artifact.in_flight, artifact.long_running) }
  end,
}
