-- SPDX-License-Identifier: MIT
-- activities/summary: sums by source and by operation, and what of the window was kept.
local view = require("lunette.view")
local wire = require("collectors.activities.wire")

local ORDER <const> = { __order = {
  "sourceFilters", "totalActivities", "completedActivities", "capturedCount", "truncated", "bySource", "byOperation", "retention",
  "httpDestinationCorrelation", "notes", "cost" } }

return view {
  kind = "activities", name = "summary",
  project = function(artifact, opts)
    local r = artifact.retention
    return setmetatable({
      sourceFilters = wire.filters(artifact), totalActivities = r.observed, completedActivities = r.observed,
      capturedCount = #artifact.spans, truncated = r.matching > r.retained, bySource = wire.by_source(artifact, opts.topN),
      byOperation = wire.by_operation(artifact, opts.topN), retention = wire.retention(artifact),
      httpDestinationCorrelation = wire.correlation(artifact), notes = wire.notes(artifact), cost = artifact.cost,
    }, ORDER), { summary = ("%d spans of %d operations in %d sources."):format(r.observed, #artifact.by_operation, #artifact.by_source) }
  end,
}
