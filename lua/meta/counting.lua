-- SPDX-License-Identifier: MIT
---@meta
-- luacheck: ignore 212 241
-- lunette.counting: what the kernel and the processor count of a process within a window.

---@class lunette.counting
local counting = {}

---@class LunetteCount
---@field value? number        events; of task-clock nanoseconds. nil: not known
---@field share? number        of the time in which it was counted; below 1 the value is extrapolated
---@field source? "perf"|"proc"
---@field user_only? boolean   the kernel's own part is not in it
---@field at_least? boolean    threads that ended meanwhile are not in it
---@field errno? integer       why perf did not count it
---@field message? string

---@class LunetteCounting
local Counting = {}

--- What was counted since it was opened. Waits.
---@return { metrics: table<string, LunetteCount>, elapsed_ms: number, threads: integer, uncounted: integer, raced: integer,
---  ended: integer }?
---@return LunetteErr? err
---@nodiscard
function Counting:read() end

function Counting:close() end

--- Begins to count all threads of a process, and those that they start. Waits.
---@param pid integer
---@return LunetteCounting?
---@return LunetteErr? err
---@nodiscard
function counting.open(pid) end

return counting
