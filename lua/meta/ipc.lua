-- SPDX-License-Identifier: MIT
---@meta
-- luacheck: ignore 212
-- lunette.ipc: the runtime's diagnostics socket. Every function waits.

---@class lunette.ipc
local ipc = {}

---@class LunetteProcessInfo
---@field processId integer
---@field runtimeCookie string
---@field commandLine string
---@field os string
---@field arch string
---@field entrypoint? string
---@field runtimeVersion? string
---@field rid? string
---@field version integer  which form of ProcessInfo answered, 1 to 3

---@class LunetteEndpoint
---@field pid integer
---@field nspid integer
---@field start_time integer  ticks since boot
---@field path? string
---@field uid integer
---@field same_namespace boolean
---@field stopped boolean
---@field runtime? "CoreClr"|"NativeAot"|"Mono"
---@field router? boolean
---@field state "ok"|"unreachable"
---@field cause? string
---@field message? string
---@field detail? string
---@field hint? string
---@field info? LunetteProcessInfo

--- All .NET processes seen, by pid, probed at once; list.dropped counts those over 4,096.
---@param opts? { tmpdirs?: string[], timeout_ms?: integer }
---@return LunetteEndpoint[]?
---@return LunetteErr? err
---@nodiscard
function ipc.discover(opts) end

--- The record of one process, without asking it anything.
---@param pid integer
---@return LunetteEndpoint?
---@return LunetteErr? err
---@nodiscard
function ipc.resolve(pid) end

---@param pid integer
---@param timeout_ms? integer  5000
---@return LunetteProcessInfo?
---@return LunetteErr? err
---@nodiscard
function ipc.process_info(pid, timeout_ms) end

---@param pid integer
---@param timeout_ms? integer
---@return string[]? lines  "NAME=VALUE"
---@return LunetteErr? err
---@nodiscard
function ipc.environment(pid, timeout_ms) end

---@param pid integer
---@param timeout_ms? integer
---@return true?
---@return LunetteErr? err
function ipc.ping(pid, timeout_ms) end

return ipc
