-- SPDX-License-Identifier: MIT
-- log-snapshot/byCategory: messages, warnings and errors of each category, most messages first.
local numbers = require("lunette.numbers")
local view = require("lunette.view")
local wire = require("collectors.logs.wire")

local ORDER <const> = { __order = {
  "untrustedDataBoundary", "categoryFilters", "minimumLevel", "totalEvents", "returned", "categories" } }

return view {
  kind = "log-snapshot", name = "byCategory",
  project = function(artifact, opts)
    local rows = wire.categories(artifact, opts.topN)
    return setmetatable({
      untrustedDataBoundary = wire.boundary(), categoryFilters = wire.filters(artifact), minimumLevel = artifact.level,
      totalEvents = numbers.count(artifact.total), returned = #rows, categories = rows,
    }, ORDER), { summary = ("%d of %d categories."):format(#rows, #artifact.categories) }
  end,
}
