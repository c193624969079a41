-- SPDX-License-Identifier: MIT
-- contention-snapshot/summary: totals and percentiles.
local view = require("lunette.view")
local wire = require("collectors.contention.wire")

return view {
  kind = "contention-snapshot", name = "summary",
  project = function(artifact)
    return wire.summary(artifact), { summary = wire.sentence(artifact, { path = artifact.origin == "trace" }) }
  end,
}
