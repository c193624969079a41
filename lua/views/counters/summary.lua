-- SPDX-License-Identifier: MIT
-- counters/summary: everything that the window captured, not only the headline counters.
local json = require("lunette.json")
local snapshot = require("collectors.counters.snapshot")
local view = require("lunette.view")

return view {
  kind = "counters", name = "summary",
  project = function(artifact)
    local counters, meters = snapshot.counters(artifact), snapshot.meters(artifact)
    return {
      count = #counters, counters = counters, meterCount = #meters, meters = meters, notes = json.array({ table.unpack(artifact.notes) }),
    }, { summary = ("%d counters and %d Meter series."):format(#counters, #meters) }
  end,
}
