-- SPDX-License-Identifier: MIT
-- http-phases-snapshot/byPhase: what the time of all requests went to: phases, the waits between them, the making of connections.
local json = require("lunette.json")
local numbers = require("lunette.numbers")
local view = require("lunette.view")
local wire = require("collectors.http_phases.wire")

local NOTE <const> = "Phases and waits fill the time of the requests once, and share is of that time. Kind setup (dns, connect, tls) is "
  .. "the making of connections, most of it while a request is in the queue; a connection may end up with another request."

return view {
  kind = "http-phases-snapshot", name = "byPhase",
  project = function(artifact)
    local top = artifact.parts[1]
    return {
      requests = artifact.ended, totalMs = numbers.round(artifact.total.total / 1e6, 3), parts = wire.parts(artifact),
      notes = json.array({ NOTE }),
    }, { summary = top and ("%s has %.0f %% of the time of %d requests."):format(top.name, 100 * top.share, artifact.ended)
      or "No request ended in the window." }
  end,
}
