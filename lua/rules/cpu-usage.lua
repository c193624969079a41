-- SPDX-License-Identifier: MIT
-- cpu.usage: most of the machine's processors are busy.
local rule = require("lunette.rule")

return rule {
  name = "cpu.usage", order = 40, input = "cpu", evidence = "cpu-usage", unit = "%",
  levels = { elevated = 70, critical = 90 },
  summary = "CPU usage was {value} % of all processors.",
  rationale = "Little CPU is left for peaks above 70 %; above 90 % work waits for a processor.",
  next = { tool = "collect_sample", arguments = { kind = "cpu", durationSeconds = 10, topN = 25 }, reason = "See which methods run." },
  indicator = { name = "cpu-usage", order = 10, from = { elevated = 30, high = 70, critical = 90 }, span = 10 },
  verdict = "cpu-bound",
  hypotheses = {
    {
      name = "cpu.saturation", confidence = "medium", summary = "The process keeps most of the machine's processors busy.",
      contradicts = {
        {
          input = "gc_time", at_least = 15, unit = "%", name = "time-in-gc",
          rationale = "A good part of this CPU may be the garbage collector's.",
        },
      },
      next = { tool = "collect_sample", arguments = { kind = "cpu", durationSeconds = 10, topN = 25 }, reason = "See which methods run." },
    },
  },
}
