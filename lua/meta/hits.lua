-- SPDX-License-Identifier: MIT
---@meta
-- luacheck: ignore 212 241
-- lunette.hits: who calls functions of a process's native libraries.

---@class lunette.hits
local hits = {}

---@class LunetteHitsOptions
---@field pid integer
---@field builder LunetteProfileBuilder   of kind cpu; it holds on to the session for names
---@field functions string[]              1 to 16 names
---@field period? integer                 a stack each so many calls; 1
---@field way? "perf-uprobe"|"tracefs-uprobe"|"hardware-breakpoint"   the only one to take
---@field outstanding? boolean            functions of malloc(3) with free, a builder of allocations: blocks that are not freed

---@class HitsOutstanding
---@field blocks integer           that are still there, and their bytes
---@field bytes integer
---@field allocated integer
---@field allocated_bytes integer
---@field freed integer            of those allocated in the window
---@field freed_bytes integer
---@field freed_older integer      frees of blocks from before the window
---@field untracked integer        blocks that found no room
---@field unpaired integer         returns without their call

---@class LunetteHitsStats
---@field functions { name: string, library: string, calls: integer, samples: integer }[]
---@field way string
---@field crowded boolean       uprobes of perf were passed over: too many threads
---@field left_out integer      functions that were found and not watched
---@field calls integer
---@field samples integer       stacks
---@field broken integer        stacks whose root was not reached
---@field dropped integer
---@field lost integer          records that found no room in the kernel's ring
---@field threads_missing integer
---@field throttled integer     times that the kernel held the probes back, since there were too many stacks
---@field descriptors integer
---@field outstanding? HitsOutstanding
---@field target_ended boolean
---@field elapsed_ms number
---@field open_ms number
---@field close_ms number

---@class LunetteHitsSession
local Session = {}

--- Until ms have passed, or the process ends; whoever is cancelled ends it. The probes are gone when it returns. Once. Waits.
---@param ms integer
---@return true?
---@return LunetteErr? err
---@nodiscard
function Session:run(ms) end

--- nil before run has ended.
---@return LunetteHitsStats?
---@nodiscard
function Session:stats() end

function Session:close() end

--- Puts the probes in. Waits.
---@param options LunetteHitsOptions
---@return LunetteHitsSession?
---@return LunetteErr? err
---@nodiscard
function hits.open(options) end

--- Removes probes that a process of ours left behind which was killed. How many.
---@return integer
function hits.sweep() end

--- Those that sweep would remove: the line that removes one when it is written to uprobe_events, "-:lunette_4242_99/s0p0".
---@return string[]
---@nodiscard
function hits.stale() end

return hits
