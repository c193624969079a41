-- SPDX-License-Identifier: MIT
-- runtime-metrics-snapshot/timeline: the values of each complete interval, the newest topN, in order of time.
local view = require("lunette.view")
local wire = require("collectors.runtime_metrics.wire")

return view {
  kind = "runtime-metrics-snapshot", name = "timeline",
  project = function(artifact, opts)
    local rows = wire.timeline(artifact, opts.topN)
    return { intervals = #artifact.intervals + artifact.dropped, returned = #rows, timeline = rows },
      { summary = ("%d of %d complete intervals."):format(#rows, #artifact.intervals + artifact.dropped) }
  end,
}
