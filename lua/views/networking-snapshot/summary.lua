-- SPDX-License-Identifier: MIT
-- networking-snapshot/summary: counts, latencies, counters and the operations with most requests.
local view = require("lunette.view")
local wire = require("collectors.networking.wire")

return view {
  kind = "networking-snapshot", name = "summary",
  project = function(artifact, opts)
    return wire.summary(artifact, opts.topN), { summary = wire.sentence(artifact, { path = artifact.origin == "trace" }) }
  end,
}
