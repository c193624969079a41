-- SPDX-License-Identifier: MIT
-- networking-snapshot/queue: how long requests waited for a connection of the pool, the making of a new one included.
local view = require("lunette.view")
local wire = require("collectors.networking.wire")

return view {
  kind = "networking-snapshot", name = "queue",
  project = function(artifact)
    local q = artifact.queue
    return wire.quality(artifact, wire.queue(artifact, {})), {
      summary = q.time and ("%d of %d requests waited for a connection: p50 %.1f ms, p95 %.1f ms, at most %.1f ms."):format(q.left,
        artifact.http.started, q.time.p50, q.time.p95, q.time.max) or ("Time in the queue: %s."):format(q.availability),
    }
  end,
}
