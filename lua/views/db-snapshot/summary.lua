-- SPDX-License-Identifier: MIT
-- db-snapshot/summary: totals, the statements that took most time, the pools.
local json = require("lunette.json")
local view = require("lunette.view")
local wire = require("collectors.db.wire")

return view {
  kind = "db-snapshot", name = "summary",
  project = function(artifact, opts)
    return {
      totalCommands = artifact.total, distinctCommands = #artifact.commands, nPlusOneCount = #artifact.incidents,
      topCommands = wire.commands(artifact, opts.topN), connectionPool = wire.pools(artifact),
      notes = json.array({ table.unpack(artifact.notes) }),
    }, { summary = ("%d commands of %d statements."):format(artifact.total, #artifact.commands) }
  end,
}
