-- SPDX-License-Identifier: MIT
-- networking-snapshot/dns: lookups of names, and how long they took.
local view = require("lunette.view")
local wire = require("collectors.networking.wire")

return view {
  kind = "networking-snapshot", name = "dns",
  project = function(artifact)
    local f = artifact.dns
    return wire.quality(artifact, wire.dns(artifact, {})), {
      summary = ("%d lookups, %d failed%s."):format(f.started, f.failed,
        f.time and (", p95 %.1f ms"):format(f.time.p95 / 1e6) or "; their time is " .. f.availability),
    }
  end,
}
