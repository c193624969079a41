-- SPDX-License-Identifier: MIT
---@meta
-- luacheck: ignore 212 241
-- lunette.memory: jobs in worker processes. "waits": the task is suspended, others run.

---@class lunette.memory
local memory = {}

---@class LunetteMemoryResult   what a worker wrote, sealed against any change
local result = {}

---@return integer bytes
function result:size() end

--- All of it.
---@param max_bytes? integer   128 MiB
---@return string?, LunetteErr?
function result:text(max_bytes) end

--- Gives its memory back; also done when it is collected.
function result:close() end

---@class LunetteMemoryRun
---@field pid integer?   of the worker, while it runs
local run = {}

--- Waits for the next word of how far it is; nothing once it has ended.
---@param timeout_ms? integer
---@return { fraction: number, text: string }?, LunetteErr?
function run:progress(timeout_ms) end

--- Waits for its end. A crash, a kill or a time-out is an error that says what it was at.
---@param timeout_ms? integer
---@return LunetteMemoryResult?, LunetteErr?
function run:wait(timeout_ms) end

--- Kills it if it runs still.
function run:close() end

--- Starts a job in a process of its own: args is one JSON object.
---@param what { job: string, args: string?, timeout_ms: integer? }
---@return LunetteMemoryRun?, LunetteErr?
function memory.start(what) end

--- Whether this kernel lets a job be confined (native/memory/confine.h). Where not, jobs run all the same.
---@return boolean
function memory.confines() end

return memory
