-- SPDX-License-Identifier: MIT
-- gc.time: garbage collections take a visible share of the time.
local rule = require("lunette.rule")

return rule {
  name = "gc.time", order = 50, input = "gc_time", evidence = "time-in-gc", unit = "%",
  levels = { elevated = 15, critical = 30 },
  summary = "{value} % of the time between collections went into GC.",
  rationale = "Above 15 % the collector costs a visible share of the throughput. Counted only when a collection ran in the window.",
  next = { tool = "collect_events", arguments = { kind = "gc", durationSeconds = 10 }, reason = "See the collections and their pauses." },
  indicator = { name = "time-in-gc", order = 20, from = { elevated = 5, high = 15, critical = 30 }, span = 20 },
  verdict = "gc-pressure",
  hypotheses = {
    {
      name = "memory.gc-pressure", confidence = "medium", summary = "Garbage collections take a visible share of the time.",
      contradicts = {
        {
          input = "gc_count", below = 2, unit = "collections", name = "gen-0-gc-count",
          rationale = "A single collection says little about a rate.",
        },
      },
      next = {
        tool = "collect_events", arguments = { kind = "gc", durationSeconds = 10 },
        reason = "See the collections, their causes and pauses.",
      },
    },
  },
}
