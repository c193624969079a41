-- SPDX-License-Identifier: MIT
-- runtime-metrics-snapshot/summary: the nine values now, and their course over the window.
local view = require("lunette.view")
local wire = require("collectors.runtime_metrics.wire")

return view {
  kind = "runtime-metrics-snapshot", name = "summary",
  project = function(artifact)
    return wire.summary(artifact), { summary = ("Nine values over %d complete intervals."):format(#artifact.intervals + artifact.dropped) }
  end,
}
