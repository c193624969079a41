-- SPDX-License-Identifier: MIT
---@meta
-- luacheck: ignore 212 241
-- lunette.heap: what the job `heap` of a worker wrote: a graph, and behind it the details of a heap.

---@class lunette.heap
local heap = {}

--- The result's descriptor, for graph.open; it stays the result's.
---@param result LunetteMemoryResult
---@return integer
function heap.fd(result) end

--- JSON: runtime, sizes, stop, pid, sections, notes.
---@param result LunetteMemoryResult
---@return string?
---@return LunetteErr? err
---@nodiscard
function heap.details(result) end

return heap
