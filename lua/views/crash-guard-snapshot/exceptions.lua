-- SPDX-License-Identifier: MIT
-- crash-guard-snapshot/exceptions: the last exceptions before the end of the window, in order of time.
local rows = require("collectors.exceptions.rows")
local view = require("lunette.view")

return view {
  kind = "crash-guard-snapshot", name = "exceptions",
  project = function(artifact, opts)
    local kept = artifact.recent
    local from = math.max(1, #kept - opts.topN + 1)
    local list = rows.wire_rows(table.move(kept, from, #kept, 1, {}))
    return { returned = #list, exceptions = list },
      { summary = ("The last %d of %d exceptions (%d kept)."):format(#list, artifact.total, #kept) }
  end,
}
