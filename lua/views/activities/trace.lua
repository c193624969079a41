-- SPDX-License-Identifier: MIT
-- activities/trace: the kept spans of one trace as a forest, with what was left of each beside its children and the critical path.
local trace_view = require("collectors.activities.trace_view")
local trace_ids = require("collectors.activities.trace_ids")
local view = require("lunette.view")

return view {
  kind = "activities", name = "trace",
  project = function(artifact, opts)
    local id, err = trace_ids.parse(opts.traceId)
    if not id then return nil, err end
    return trace_view.of(artifact, id, opts.topN)
  end,
}
