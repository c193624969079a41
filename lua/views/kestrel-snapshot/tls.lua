-- SPDX-License-Identifier: MIT
-- kestrel-snapshot/tls: handshakes, their times and protocols.
local view = require("lunette.view")
local wire = require("collectors.kestrel.wire")

return view {
  kind = "kestrel-snapshot", name = "tls",
  project = function(artifact)
    local payload = wire.tls(artifact, {})
    payload.tlsProtocols = wire.protocols(artifact)
    return payload, { summary = ("%d handshakes began, %d failed."):format(artifact.tls.started, artifact.tls.failed) }
  end,
}
