-- SPDX-License-Identifier: MIT
-- startup-snapshot/timeline: loader and DependencyInjection events merged in order of time.
local rows = require("collectors.startup.rows")
local view = require("lunette.view")

return view {
  kind = "startup-snapshot", name = "timeline",
  project = function(artifact, opts)
    local list = rows.timeline(artifact, opts.topN)
    return { returned = #list, timeline = list }, { summary = ("%d of %d events."):format(#list, rows.timeline_length(artifact)) }
  end,
}
