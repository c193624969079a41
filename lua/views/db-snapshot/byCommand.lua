-- SPDX-License-Identifier: MIT
-- db-snapshot/byCommand: statements on a connection, most time first.
local view = require("lunette.view")
local wire = require("collectors.db.wire")

return view {
  kind = "db-snapshot", name = "byCommand",
  project = function(artifact, opts)
    local rows = wire.commands(artifact, opts.topN)
    return { totalCommands = artifact.total, returned = #rows, commands = rows },
      { summary = ("%d of %d statements."):format(#rows, #artifact.commands) }
  end,
}
