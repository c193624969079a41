-- SPDX-License-Identifier: MIT
-- gc-events/heap-stats: the heap after each collection, earliest first, and how it moved from the first to the last of the window.
local snapshot = require("collectors.gc.snapshot")
local view = require("lunette.view")

local ORDER <const> = { __order = { "returned", "trend", "samples" } }

local function trend_of(first, last)
  return {
    gen2DeltaBytes = last.gen2 - first.gen2, lohDeltaBytes = last.loh - first.loh, pohDeltaBytes = (last.poh or 0) - (first.poh or 0),
    totalHeapDeltaBytes = snapshot.heap_bytes(last) - snapshot.heap_bytes(first), pinnedObjectCountDelta = last.pinned - first.pinned,
    gcHandleCountDelta = last.handles - first.handles,
  }
end

return view {
  kind = "gc-events", name = "heap-stats",
  project = function(artifact, opts)
    local heap = artifact.heap
    local rows = snapshot.heap_stats(artifact, opts.topN)
    local n = #heap.rows + heap.dropped
    return setmetatable({ returned = #rows, samples = rows, trend = n > 1 and trend_of(heap.first, heap.last) or nil }, ORDER),
      { summary = ("%d of %d heap samples."):format(#rows, n) }
  end,
}
