-- SPDX-License-Identifier: MIT
-- activities/activities: the kept spans by start, source and operation.
local view = require("lunette.view")
local wire = require("collectors.activities.wire")

local ORDER <const> = { __order = {
  "sourceFilters", "totalActivities", "returned", "retention", "httpDestinationCorrelation", "activities" } }

return view {
  kind = "activities", name = "activities",
  project = function(artifact, opts)
    local rows = wire.spans(artifact, opts.topN)
    return setmetatable({
      sourceFilters = wire.filters(artifact), totalActivities = artifact.retention.observed, returned = #rows, activities = rows,
      retention = wire.retention(artifact), httpDestinationCorrelation = wire.correlation(artifact),
    }, ORDER), { summary = ("%d of %d kept spans."):format(#rows, #artifact.spans) }
  end,
}
