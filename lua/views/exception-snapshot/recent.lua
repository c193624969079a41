-- SPDX-License-Identifier: MIT
-- exception-snapshot/recent: the first throws of the window in order of time, with their stacks.
local rows = require("collectors.exceptions.rows")
local view = require("lunette.view")

return view {
  kind = "exception-snapshot", name = "recent",
  project = function(artifact, opts)
    local list = rows.wire_rows(artifact.recent, opts.topN)
    return { totalExceptions = artifact.total, recentCap = artifact.recent_cap, returned = #list, recent = list },
      { summary = ("The first %d of %d exceptions (%d kept)."):format(#list, artifact.total, #artifact.recent) }
  end,
}
