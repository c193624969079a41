-- SPDX-License-Identifier: MIT
-- jit-snapshot/summary: totals, tiers, rates, the health line and the methods that took longest.
local json = require("lunette.json")
local snapshot = require("collectors.jit.snapshot")
local view = require("lunette.view")

return view {
  kind = "jit-snapshot", name = "summary",
  project = function(artifact, opts)
    local payload = snapshot.totals(artifact)
    payload.topMethods, payload.notes = snapshot.methods(artifact, opts.topN), json.array({ table.unpack(artifact.notes) })
    return payload, { summary = payload.healthCheck }
  end,
}
