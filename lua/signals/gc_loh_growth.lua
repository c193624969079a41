-- SPDX-License-Identifier: MIT
-- gc.loh-growth: how much the large object heap grew from the first to the last collection of the window. A grouping, never a diagnosis.
local hints = require("lunette.hints")

local M = {}

M.ID = "gc.loh-growth"
M.EMIT_AT = 0.1         -- growth relative to the larger size
M.MIN_BYTES = 1 << 20   -- below, a heap of any size is noise

--- The signal of a window as a list of none or one.
---@param artifact GcArtifact
---@param handle_id string?
---@return table[]
function M.of(artifact, handle_id)
  local first, last = artifact.heap.first, artifact.heap.last
  if not first or not last then return {} end
  local growth, largest = last.loh - first.loh, math.max(first.loh, last.loh)
  if growth < M.MIN_BYTES or growth / largest < M.EMIT_AT then return {} end
  return { {
    signal = M.ID,
    summary = ("The large object heap grew from %.1f to %.1f MB within the window."):format(first.loh / 1e6, last.loh / 1e6),
    salience = growth / largest, buckets = { { key = "LOH", magnitude = growth, unit = "bytes", handle = handle_id } },
    nextAction = hints.new("query_snapshot", "See the heap after each collection.", { handle = handle_id, view = "heap-stats" }),
  } }
end

return M
