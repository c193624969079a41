-- SPDX-License-Identifier: MIT
-- runtime.silent-interval: the runtime's counters failed to come.
local rule = require("lunette.rule")

return rule {
  name = "runtime.silent-interval", order = 80, input = "silent_s", evidence = "EventCounters", unit = "s",
  levels = { elevated = 1.75 },
  -- what counts as silence: an interval that took so many times its length, or so many intervals and seconds without a value at the end
  numbers = { late_intervals = 1.75, tail_intervals = 1.5, tail_s = 0.7 },
  summary = "The runtime's counters were silent for {value} s.",
  rationale = "Counters come once a second here: the process was stopped, starved of CPU, or its counter thread was held up.",
  next = { tool = "inspect_process", arguments = { view = "container" }, reason = "See whether the process is throttled or stopped." },
}
