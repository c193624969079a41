-- SPDX-License-Identifier: MIT
-- cpu.effective-core-consumption: about one core is saturated, however many the machine has.
local rule = require("lunette.rule")

return rule {
  name = "cpu.effective-core-consumption", order = 30, input = "cores", evidence = "cpu-usage", unit = "cores",
  levels = { elevated = 0.8 },
  summary = "The process uses about {value} processors' worth of CPU.",
  rationale = "cpu-usage times the target's own processor count; from 0.8 on about one core is saturated.",
  next = {
    tool = "collect_sample", arguments = { kind = "cpu", durationSeconds = 10, topN = 25 },
    reason = "About one core is busy: see which methods run.",
  },
}
