-- SPDX-License-Identifier: MIT
-- What to call after inspect_process(view="container"): by the first limit that bites.
local hint_rule = require("lunette.hint_rule")

return hint_rule {
  handle = "container", order = 100,
  hints = {
    {
      when = { { field = "cpu.throttlePercent", above = 5 } }, tool = "collect_sample",
      arguments = { kind = "cpu", durationSeconds = 10 }, priority = "high", reason = "The CPU quota throttles it: see what burns the CPU.",
    },
    {
      otherwise = true, when = { { field = "memory.usageFraction", above = 0.85 } }, -- look at the heap before the OOM killer does
      tool = "inspect_heap", arguments = { source = "live", topTypes = 25 }, priority = "high",
      reason = "Memory is close to its limit: see what holds it before the kernel kills it.",
    },
    {
      otherwise = true, tool = "collect_events", arguments = { kind = "counters", durationSeconds = 5 },
      reason = "No limit bites: read the counters.",
    },
  },
}
