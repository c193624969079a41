-- SPDX-License-Identifier: MIT
---@meta
-- luacheck: ignore 212 241
-- lunette.oncpu: samples of the kernel's CPU clock into a builder of lunette.profile (docs/design/kernel.md).

---@class lunette.oncpu
---@field HZ integer   samples of a second that a thread runs
local oncpu = {}

---@class LunetteOncpuSession
local session = {}

---@class LunetteOncpuOptions
---@field pid integer
---@field builder LunetteProfileBuilder  of kind cpu; it holds on to the session for names
---@field hz? integer
---@field stack_bytes? integer           of each sample's user stack

---@class LunetteOncpuStats
---@field samples integer
---@field lost integer              records that found no room in the kernel's ring
---@field throttled integer
---@field damaged integer
---@field late integer
---@field cpus integer
---@field threads integer
---@field threads_missing integer   threads that could not be sampled
---@field descriptors integer
---@field ring_bytes integer        of each CPU
---@field window_ns integer
---@field hz integer
---@field in_kernel integer         samples taken in the kernel
---@field no_user integer           samples without a stack of the program
---@field joined integer            deep stacks whose rest came by frame pointers
---@field broken integer            stacks whose root was not reached
---@field dropped integer
---@field unwind_ns integer
---@field by_cfi integer            frames
---@field by_frame_pointer integer
---@field by_code integer
---@field guesses integer
---@field jit_map integer           functions in perf-PID.map
---@field no_kernel boolean         only user space could be sampled
---@field kernel_names boolean
---@field kernel_why? string        why kernel frames have no names
---@field target_ended boolean
---@field stopped boolean

--- Opens the events of all threads. Waits.
---@param options LunetteOncpuOptions
---@return LunetteOncpuSession? session, LunetteErr? err
---@nodiscard
function oncpu.open(options) end

--- Samples until ms have passed (nil: until stop), stop, or the end of the process. Once. Waits.
---@param ms? integer
---@return true? done, LunetteErr? err
---@nodiscard
function session:run(ms) end

--- Ends run soon.
function session:stop() end

--- What came; nil before run has ended.
---@return LunetteOncpuStats?
---@nodiscard
function session:stats() end

function session:close() end

return oncpu
