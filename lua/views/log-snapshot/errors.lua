-- SPDX-License-Identifier: MIT
-- log-snapshot/errors: the newest messages of level Warning and above, newest last. They are kept apart, so others do not push them out.
local numbers = require("lunette.numbers")
local view = require("lunette.view")
local wire = require("collectors.logs.wire")

return view {
  kind = "log-snapshot", name = "errors",
  project = function(artifact, opts)
    local rows = wire.newest(artifact.errors, opts.topN)
    return setmetatable({
      untrustedDataBoundary = wire.boundary(), totalEvents = numbers.count(artifact.total), returned = #rows, errors = rows,
    }, { __order = { "untrustedDataBoundary", "totalEvents", "returned", "errors" } }),
      { summary = ("The newest %d warnings and errors."):format(#rows) }
  end,
}
