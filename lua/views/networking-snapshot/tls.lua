-- SPDX-License-Identifier: MIT
-- networking-snapshot/tls: handshakes as a client, how long they took, and by which protocols.
local view = require("lunette.view")
local wire = require("collectors.networking.wire")

return view {
  kind = "networking-snapshot", name = "tls",
  project = function(artifact)
    local f = artifact.tls
    local payload = wire.tls(artifact, {})
    payload.tlsProtocols = wire.protocols(artifact)
    return wire.quality(artifact, payload), {
      summary = ("%d TLS handshakes, %d failed%s."):format(f.started, f.failed,
        f.time and (", p95 %.1f ms"):format(f.time.p95 / 1e6) or "; their time is " .. f.availability),
    }
  end,
}
