-- SPDX-License-Identifier: MIT
-- memory.intra-window-growth: heap, large object heap or working set grew within the window. Its size does not matter.
local rule = require("lunette.rule")

return rule {
  name = "memory.intra-window-growth", order = 90, level = "elevated",
  inputs = { "heap", "loh", "working_set" }, change = { percent = 20, amount = 1, unit = "MB" },
  summary = "Within the window grew: {changes}.",
  rationale = "First to last value of one window: at least 20 % and at least 1 MB, both on this metric. Its size does not matter.",
  next = {
    tool = "inspect_process", arguments = { view = "memory_trend", durationSeconds = 30 }, reason = "See whether it goes on growing.",
  },
  indicator = { from = { elevated = 20, high = 100 } },
  hypotheses = {
    {
      name = "memory.footprint-growth", confidence = "low",
      summary = "The memory footprint grew within the window. Whether it stays, only a longer trend and two heap snapshots can tell.",
      stronger = {
        confidence = "medium",
        when = {
          {
            input = "gc_count", at_least = 2, unit = "collections", name = "gen-0-gc-count",
            rationale = "Collections ran, and the memory stayed.",
          },
          {
            input = { fired = "memory.intra-window-growth", among = { "heap", "working_set" } }, at_least = 2, unit = "metrics",
            name = "gc-heap-size and working-set", rationale = "Heap and working set grew together.",
          },
          {
            input = "heap_growth_mb", at_least = 5, unit = "MB", name = "gc-heap-size",
            rationale = "Growth of this size within seconds is no noise.",
          },
          {
            input = "heap_falls", at_most = 1, unit = "falls", name = "gc-heap-size", rationale = "The heap hardly ever shrank in between.",
          },
        },
      },
      contradicts = {
        {
          input = "gc_count", below = 1, unit = "collections", name = "gen-0-gc-count",
          rationale = "No collection ran: what was allocated may all be garbage.",
        },
      },
      next = {
        tool = "inspect_process", arguments = { view = "memory_trend", durationSeconds = 30 }, reason = "See whether it goes on growing.",
      },
    },
  },
}
