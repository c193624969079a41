-- SPDX-License-Identifier: MIT
-- counters/diff: the counters and Meter series of several windows side by side.
local comparable = require("collectors.counters.comparable")
local journey = require("lunette.journey")
local view = require("lunette.view")

return view {
  kind = "counters", name = "diff",
  project = function(_, opts, entry) return journey.view(entry, opts, comparable.of) end,
}
