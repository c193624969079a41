-- SPDX-License-Identifier: MIT
-- db-snapshot/connectionPool: the pools by provider.
local json = require("lunette.json")
local view = require("lunette.view")
local wire = require("collectors.db.wire")

return view {
  kind = "db-snapshot", name = "connectionPool",
  project = function(artifact, opts)
    local exhausted = 0
    for _, pool in ipairs(artifact.pools) do exhausted = exhausted + pool.exhausted end
    return {
      providers = #artifact.pools, poolExhaustedCount = exhausted, connectionPool = wire.pools(artifact, opts.topN),
      notes = json.array({ table.unpack(artifact.notes) }),
    }, { summary = ("%d providers with a pool; it ran out %d times."):format(#artifact.pools, exhausted) }
  end,
}
