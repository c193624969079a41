-- SPDX-License-Identifier: MIT
-- gc.loh-growth: how much the large object heap grew from the first to the last collection of the window. A grouping, never a diagnosis.
local signal = require("lunette.signal")

return signal {
  id = "gc.loh-growth", handle = "gc-events", order = 30,
  emit_at = 0.1, -- growth relative to the larger size
  limits = { min_bytes = 1 << 20 }, -- below, a heap of any size is noise
  of = function(artifact, self)
    local first, last = artifact.heap.first, artifact.heap.last
    if not first or not last then return nil end
    local growth, largest = last.loh - first.loh, math.max(first.loh, last.loh)
    if growth < self.limits.min_bytes or growth / largest < self.emit_at then return nil end
    return {
      summary = ("The large object heap grew from %.1f to %.1f MB within the window."):format(first.loh / 1e6, last.loh / 1e6),
      salience = growth / largest, buckets = { { key = "LOH", magnitude = growth, unit = "bytes" } },
    }
  end,
  next = { view = "heap-stats", reason = "See the heap after each collection." },
}
