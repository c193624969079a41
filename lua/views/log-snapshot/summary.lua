-- SPDX-License-Identifier: MIT
-- log-snapshot/summary: counts by level and category, of all messages of the window.
local numbers = require("lunette.numbers")
local view = require("lunette.view")
local wire = require("collectors.logs.wire")

local ORDER <const> = { __order = {
  "untrustedDataBoundary", "categoryFilters", "minimumLevel", "totalEvents", "counts", "capturedCount", "truncated", "byCategory",
  "notes" } }

return view {
  kind = "log-snapshot", name = "summary",
  project = function(artifact, opts)
    return setmetatable({
      untrustedDataBoundary = wire.boundary(), categoryFilters = wire.filters(artifact), minimumLevel = artifact.level,
      totalEvents = numbers.count(artifact.total), counts = wire.counts(artifact), capturedCount = #artifact.recent,
      truncated = artifact.truncated, byCategory = wire.categories(artifact, opts.topN), notes = wire.notes(artifact),
    }, ORDER), { summary = ("%d messages of %d categories."):format(artifact.total, #artifact.categories) }
  end,
}
