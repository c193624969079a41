-- SPDX-License-Identifier: MIT
-- wait-handles-snapshot/summary: totals, percentiles, sources.
local view = require("lunette.view")
local wire = require("collectors.wait_handles.wire")

return view {
  kind = "wait-handles-snapshot", name = "summary",
  project = function(artifact)
    return wire.summary(artifact), { summary = wire.sentence(artifact, { path = artifact.origin == "trace" }) }
  end,
}
