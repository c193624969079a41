-- SPDX-License-Identifier: MIT
---@meta
-- luacheck: ignore 212 241
-- lunette.ipc: the runtime's diagnostics socket. Every function waits, but for listen.

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

---@class LunettePort
---@field path string?   for DOTNET_DiagnosticPorts; nil once closed
local Port = {}

---@class LunettePortRuntime
---@field pid integer     here, as the kernel tells
---@field nspid integer   as the runtime sees itself
---@field cookie string
---@field resumed boolean  it answered that it goes on
---@field gone boolean     its process has ended

--- Waits for the first runtime.
---@param timeout_ms integer
---@return LunettePortRuntime?
---@return LunetteErr? err
---@nodiscard
function Port:wait(timeout_ms) end

--- Lets the first runtime go on, now or when it comes. Returns at once; the first session opened on it does the same once it is armed.
function Port:release() end

--- The first runtime is not the one that is waited for: it goes on, and the next one to come is the first.
---@param keep_variable? boolean   what it starts shall come here too, although the port restores the variable
function Port:skip(keep_variable) end

--- Waits until the first runtime has answered that it goes on.
---@param timeout_ms integer
---@return true?
---@return LunetteErr? err
function Port:wait_resumed(timeout_ms) end

---@return { runtimes: integer, resumed: integer, rejected: integer, dropped: integer, held: boolean }
---@nodiscard
function Port:stats() end

--- Ends the listening and lets go whoever is held. Sessions go on. Also `<close>`.
function Port:close() end

--- Listens for runtimes that are started with DOTNET_DiagnosticPorts=PORT.path. Does not wait.
---@param opts? { dir?: string, restore?: string|false }  dir: where the private folder is made; default TMPDIR or /tmp. restore: what
--- DOTNET_DiagnosticPorts was before (false: nothing), which each runtime gets back before it goes on
---@return LunettePort?
---@return LunetteErr? err
---@nodiscard
function ipc.listen(opts) end

--- Lets a runtime go on that waits at its own socket (DOTNET_DefaultDiagnosticPortSuspend=1); harmless for one that runs.
---@param pid integer
---@param timeout_ms? integer
---@return true?
---@return LunetteErr? err
function ipc.resume(pid, timeout_ms) end

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

--- Has the runtime write a dump of its process. That takes seconds to minutes, its diagnostics server does nothing else meanwhile, and a
--- call that is given up leaves it going on. No error is no proof of a file.
---@param pid integer
---@param what { path: string, type: integer, crash_report?: boolean, timeout_ms?: integer }  path: absolute, as the target sees it; type: 1
--- mini, 2 heap, 3 triage, 4 full; timeout_ms: an hour
---@return integer? form   of the command, 1 to 3
---@return LunetteErr? err  NotSupported, IoError with createdump's own words
---@nodiscard
function ipc.dump(pid, what) end

return ipc
