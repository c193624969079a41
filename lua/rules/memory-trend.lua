-- SPDX-License-Identifier: MIT
-- The verdict of inspect_process(view="memory_trend"): how fast resident memory must move to be called growing or shrinking.
local rule = require("lunette.rule")

return rule {
  name = "memory.trend", note = "From which movement of RSS on a memory trend is called growing, or shrinking; the same is stable.",
  numbers = { growing_bytes_per_s = 1024 * 1024, shrinking_bytes_per_s = 1024 * 1024 },
}
