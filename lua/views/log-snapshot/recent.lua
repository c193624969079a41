-- SPDX-License-Identifier: MIT
-- log-snapshot/recent: the newest messages kept, newest last.
local numbers = require("lunette.numbers")
local view = require("lunette.view")
local wire = require("collectors.logs.wire")

return view {
  kind = "log-snapshot", name = "recent",
  project = function(artifact, opts)
    local rows = wire.newest(artifact.recent, opts.topN)
    return setmetatable({
      untrustedDataBoundary = wire.boundary(), totalEvents = numbers.count(artifact.total), capturedCount = #artifact.recent,
      truncated = artifact.truncated, returned = #rows, recent = rows,
    }, { __order = { "untrustedDataBoundary", "totalEvents", "capturedCount", "truncated", "returned", "recent" } }),
      { summary = ("The newest %d of %d messages."):format(#rows, artifact.total) }
  end,
}
