-- SPDX-License-Identifier: MIT
-- What to call after inspect_process(view="memory_trend"): by its verdict.
local hint_rule = require("lunette.hint_rule")

local GROWING <const> = { { field = "verdict", equals = "growing" } }

return hint_rule {
  handle = "memory-trend", order = 100,
  hints = {
    {
      when = GROWING, tool = "inspect_heap", arguments = { source = "live" }, priority = "high",
      reason = "Memory grows: see what holds it.",
    },
    {
      when = GROWING, tool = "inspect_process", arguments = { view = "container" }, reason = "Compare with the limits of its container.",
    },
    {
      otherwise = true, tool = "collect_events", arguments = { kind = "counters" }, reason = "Memory does not grow: read the counters.",
    },
  },
}
