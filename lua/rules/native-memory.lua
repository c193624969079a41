-- SPDX-License-Identifier: MIT
-- managedVsNative of inspect_process(view="resources"): when native memory is said to dominate. Both must hold.
local rule = require("lunette.rule")

return rule {
  name = "memory.native",
  note = "Native memory dominates when RSS exceeds the managed heap by more than gap_bytes and heap / RSS is below heap_ratio.",
  numbers = { gap_bytes = 64 * 1024 * 1024, heap_ratio = 0.5 },
}
