-- SPDX-License-Identifier: MIT
---@meta
-- luacheck: ignore 212 241
-- lunette.offcpu: where the threads of a process wait, by the scheduler's switches.

---@class lunette.offcpu
local offcpu = {}

---@class LunetteOffCpuFrame
---@field module string
---@field method string
---@field kind "unknown"|"kernel"|"native"|"managed"|"jit"
---@field token? integer        managed, as the rest
---@field module_path? string
---@field type? string
---@field name? string

---@class LunetteOffCpuSync     waits in futexes
---@field spans integer
---@field censored integer      cut off by an end of the window
---@field locks integer         of the spans, those of a mutex's kind of wait
---@field micros integer
---@field censored_micros integer
---@field locks_micros integer

---@class LunetteOffCpuStack
---@field leaf LunetteOffCpuFrame
---@field micros integer
---@field count integer
---@field censored integer
---@field censored_micros integer
---@field delay_micros integer    from the wake-up to the processor, where it was seen
---@field longest_micros integer
---@field threads integer
---@field depth integer
---@field state string
---@field sync LunetteOffCpuSync
---@field frames? LunetteOffCpuFrame[]   root first
---@field calls? { name: string, count: integer, micros: integer }[]
---@field calls_dropped? integer
---@field wakers? { kind: "thread"|"process"|"interrupt", tid?: integer, name?: string, count: integer, micros: integer }[]
---@field wakers_dropped? integer

---@class LunetteOffCpuCapture
local Capture = {}

--- Reads until the window is over, or the process ends. Once. Waits; whoever is cancelled ends it.
---@param ms number
---@return boolean?
---@return LunetteErr? err
---@nodiscard
function Capture:run(ms) end

--- Whether the runtime has names to tell for what was seen: 0: all code has one that is still right; 1: some may have none, or another. Of
--- what the builder knows until now, while no stream feeds it. After run, before finish. Waits.
---@param builder LunetteProfileBuilder
---@return integer
---@nodiscard
function Capture:unnamed(builder) end

---@class LunetteOffCpuResult
local Result = {}

--- Names and sorts. builder: of lunette.profile, whose stream has ended: its map of methods names managed code. Once. Waits.
---@param builder? LunetteProfileBuilder
---@return LunetteOffCpuResult?
---@return LunetteErr? err
---@nodiscard
function Capture:finish(builder) end

function Capture:close() end

--- before: spans that had begun before the window and ended in it, which are among the censored; unwoken: spans within the window whose
--- wake-up was not seen; standing: threads that waited for all of
--- it; syscalls_traced: the names of system calls are from raw_syscalls:sys_enter.
---@return table
function Result:info() end

--- Most time first.
---@param first? integer   from 1
---@param count? integer
---@param bare? boolean    without frames, calls and wakers
---@return LunetteOffCpuStack[]
function Result:stacks(first, count, bare) end

---@param first? integer
---@param count? integer
---@return table[]
function Result:threads(first, count) end

function Result:close() end

--- Opens the events. Waits.
---@param pid integer
---@param options? { stack_bytes?: integer, syscalls?: boolean, builder?: LunetteProfileBuilder }   builder: has the methods of the JIT
---@return LunetteOffCpuCapture?
---@return LunetteErr? err
---@nodiscard
function offcpu.open(pid, options) end

return offcpu
