-- SPDX-License-Identifier: MIT
-- process: which .NET processes there are, which one a call is about, and why one that is there cannot be reached.
local errors = require("lunette.errors")
local ipc = require("lunette.ipc")
local json = require("lunette.json")
local loop = require("lunette.loop")
local proc = require("lunette.proc")
local redaction = require("lunette.redaction")
local sys = require("lunette.sys")

local M = {}

M.PROBE_MS = 2000         -- an endpoint that answers later is left out
M.CACHE_MS = 60000        -- how long what is known of a process is believed
M.CACHE_MAX = 256         -- processes remembered
M.MAX_CANDIDATES = 64     -- in AmbiguousDotnetProcess
M.MAX_COMMAND_LINE = 2048 -- bytes of a command line in an answer
M.MAX_NAMED = 4           -- unreachable processes named in one sentence
local ORDER <const> = { __order = {
  "processId", "commandLine", "operatingSystem", "processArchitecture", "runtimeVersion", "managedEntrypointAssemblyName" } }
local DIGEST_ORDER <const> = { __order = {
  "processId", "runtime", "runtimeVersion", "canSampleCpu", "canCollectGcDump", "autoResolved", "bindingSource" } }

-- Kinds that a resolution may end with; the client's other kinds mean that the endpoint could not be used.
local OWN_KINDS <const> = {
  ProcessNotFound = true, NotADotnetProcess = true, EndpointUnavailable = true, Cancelled = true, InvalidArgument = true,
}

-- ---- memory -------------------------------------------------------------------------------------------------------------------

local remembered, n_remembered = {}, 0

local function key_of(pid, start_time) return ("%d:%s"):format(pid, tostring(start_time)) end

local function forget_old(now)
  for key, entry in pairs(remembered) do
    if entry.until_ms <= now or n_remembered > M.CACHE_MAX then remembered[key], n_remembered = nil, n_remembered - 1 end
  end
end

--- Remembers a value of a process for CACHE_MS. The start time tells a reused pid from the same process.
---@param process { pid: integer, start_time: integer }
---@param name string
---@param value any
function M.remember(process, name, value)
  local now, key = loop.now_ms(), key_of(process.pid, process.start_time)
  local entry = remembered[key]
  if not entry or entry.until_ms <= now then
    if not entry then n_remembered = n_remembered + 1 end
    if n_remembered > M.CACHE_MAX then forget_old(now) end
    entry = { until_ms = now + M.CACHE_MS, values = {} }
    remembered[key] = entry
  end
  entry.values[name] = value
end

--- What was remembered, or nil.
function M.recall(process, name)
  local entry = remembered[key_of(process.pid, process.start_time)]
  if not entry or entry.until_ms <= loop.now_ms() then return nil end
  return entry.values[name]
end

-- ---- records ------------------------------------------------------------------------------------------------------------------

-- A command line without secrets: options may hold passwords, and connection strings.
local function plain(s) return redaction.redact(sys.utf8_sanitize(s or "")) end

local function cut(s)
  s = plain(s)
  if #s <= M.MAX_COMMAND_LINE then return s end
  return sys.utf8_cut(s, M.MAX_COMMAND_LINE - 3) .. "..."
end

--- A DotnetProcess. The pid is the one by which this machine knows it, not the one inside its own namespace.
---@param pid integer
---@param info table   what the runtime says of itself
function M.record(pid, info)
  return setmetatable({
    processId = pid, commandLine = cut(info.commandLine), operatingSystem = (info.os or "linux"):lower(),
    processArchitecture = info.arch or "unknown", runtimeVersion = (info.runtimeVersion or "unknown"):gsub("%+.*$", ""),
    managedEntrypointAssemblyName = info.entrypoint,
  }, ORDER)
end

--- One line: who, why not, and the cure.
---@param endpoint table   of ipc.discover, unreachable
---@return string
function M.why_not(endpoint)
  local text = ("process %d (%s): %s"):format(endpoint.pid, endpoint.cause or "unreachable", endpoint.message or "it cannot be reached")
  if endpoint.hint then text = text .. "; " .. endpoint.hint end
  return text
end

--- Several of them in a sentence, at most MAX_NAMED; "" for none.
function M.name_unreachable(list)
  local parts = {}
  for i, endpoint in ipairs(list) do
    if i > M.MAX_NAMED then
      parts[#parts + 1] = ("and %d more"):format(#list - M.MAX_NAMED)
      break
    end
    parts[#parts + 1] = M.why_not(endpoint)
  end
  return table.concat(parts, ". ")
end

-- ---- all processes ------------------------------------------------------------------------------------------------------------

-- A dead socket under the pid of a process that has no runtime: some earlier process, or one of another PID namespace, left it behind.
local function only_a_left_over(endpoint) return endpoint.cause == "stale-socket" and not endpoint.runtime end

--- Every .NET process of this machine but ourselves.
---@return { reachable: table[], unreachable: table[], dropped: integer }? found, table? err   endpoints of ipc.discover, by pid
function M.discover()
  local endpoints, err = ipc.discover { timeout_ms = M.PROBE_MS }
  if not endpoints then return nil, err end
  local found = { reachable = {}, unreachable = {}, dropped = endpoints.dropped or 0 }
  for _, endpoint in ipairs(endpoints) do
    if endpoint.pid ~= sys.pid and not only_a_left_over(endpoint) then
      local list = endpoint.state == "ok" and endpoint.info and found.reachable or found.unreachable
      list[#list + 1] = endpoint
    end
  end
  return found
end

--- The reachable processes whose command line, as it is shown, contains a text, in any letter case.
---@param found table          what discover gave
---@param contains? string
---@return table[] endpoints
function M.filter(found, contains)
  if not contains or contains == "" then return found.reachable end
  local needle, rows = contains:lower(), {}
  for _, endpoint in ipairs(found.reachable) do
    if plain(endpoint.info.commandLine):lower():find(needle, 1, true) then rows[#rows + 1] = endpoint end
  end
  return rows
end

--- Rows (DotnetProcess) and what discover gave.
---@param contains? string
---@return table[]? rows, table found_or_err
function M.list(contains)
  local found, err = M.discover()
  if not found then return nil, err end
  local rows = {}
  for _, endpoint in ipairs(M.filter(found, contains)) do rows[#rows + 1] = M.record(endpoint.pid, endpoint.info) end
  return rows, found
end

--- Process ids that begin with what was typed, for completion.
function M.complete(_, value)
  local rows = M.list() or {}
  local ids = {}
  for _, row in ipairs(rows) do
    local id = tostring(row.processId)
    if id:sub(1, #tostring(value or "")) == tostring(value or "") then ids[#ids + 1] = id end
  end
  return ids
end

-- ---- one process --------------------------------------------------------------------------------------------------------------

local function start_unix_ms(start_time)
  local clock = proc.clock()
  if not clock.boot_unix_s or not start_time then return nil end
  return clock.boot_unix_s * 1000 + start_time * 1000 // clock.ticks_per_s
end

--- What is known of the runtime: the probe's word when there was one, else what the process has loaded.
local function flavour(process)
  return M.recall(process, "runtime") or process.endpoint and process.endpoint.runtime or "Unknown"
end

--- The ResolvedProcess of a target. Computed when asked, so that a probe that ran meanwhile counts.
local function digest_of(process)
  local runtime = flavour(process)
  if runtime ~= "CoreClr" and runtime ~= "NativeAot" then runtime = "Unknown" end
  return setmetatable({
    processId = process.pid, runtime = runtime, canSampleCpu = runtime == "CoreClr", canCollectGcDump = runtime == "CoreClr",
    autoResolved = process.autoResolved, runtimeVersion = process.record and process.record.runtimeVersion,
    bindingSource = process.autoResolved and "local-auto" or "explicit",
  }, DIGEST_ORDER)
end

local Process = {
  __index = function(self, name)
    if name == "digest" then return digest_of(self) end
    return nil
  end,
}

---@class TargetProcess
---@field pid integer
---@field start_time integer      with the pid it names the process for good
---@field start_unix_ms integer?
---@field autoResolved boolean
---@field endpoint table?         nil for a process that is not .NET, or cannot be reached
---@field record table?           DotnetProcess
---@field digest table            ResolvedProcess
---@field why_not table?          the error, for a process that is taken although it cannot be reached

local function target(pid, start_time, endpoint, info, auto)
  return setmetatable({
    pid = pid, start_time = start_time, start_unix_ms = start_unix_ms(start_time), endpoint = endpoint, autoResolved = auto,
    record = info and M.record(pid, info) or nil,
  }, Process)
end

-- A .NET process that cannot be used: why, and the cure; the cause goes into detail.
local function unavailable(pid, why, cure, cause)
  local message = ("Process %d cannot be reached: %s"):format(pid, why or "no reason is known")
  if cure and cure ~= "" then message = message .. "; " .. cure end
  return errors.new("EndpointUnavailable", message .. ".", { detail = cause, process_id = pid })
end

-- The kinds that the contract has for this; the client's own name of the cause goes into detail.
local function as_resolution(err, pid)
  if OWN_KINDS[err.kind] then
    err.process_id = pid
    return err
  end
  return unavailable(pid, tostring(err.message or err), err.hint, err.detail ~= "" and err.detail or err.kind)
end

local function resolve_explicit(pid)
  local stat, err = proc.stat(pid)
  if not stat then return nil, as_resolution(err, pid) end
  local endpoint
  endpoint, err = ipc.resolve(pid, M.PROBE_MS)
  if not endpoint then return nil, as_resolution(err, pid) end
  if endpoint.state ~= "ok" then return nil, unavailable(pid, endpoint.message, endpoint.hint, endpoint.cause) end
  local info
  info, err = ipc.process_info(pid, M.PROBE_MS)
  if not info then return nil, as_resolution(err, pid) end
  return target(pid, stat.start_time, endpoint, info, false)
end

local NO_PROCESS <const> = "Start lunette in the same PID namespace as the target and as the same user (or root); a container's /tmp "
  .. "must be shared or its process visible, and DOTNET_EnableDiagnostics must not be 0."

local function none_found(found)
  local message = "No .NET process can be reached on this machine."
  if #found.unreachable > 0 then message = message .. " Seen but out of reach: " .. M.name_unreachable(found.unreachable) .. "." end
  return errors.new("NoDotnetProcessFound", message, { detail = NO_PROCESS })
end

local function several_found(found)
  local candidates = {}
  for i, endpoint in ipairs(found.reachable) do
    if i > M.MAX_CANDIDATES then break end
    candidates[i] = M.record(endpoint.pid, endpoint.info)
  end
  local message = ("There are %d .NET processes and no processId: give one."):format(#found.reachable)
  if #candidates < #found.reachable then message = message .. (" The first %d are listed."):format(#candidates) end
  return errors.new("AmbiguousDotnetProcess", message, { detail = { candidates = json.array(candidates) } })
end

local function resolve_lone()
  local found, err = M.discover()
  if not found then return nil, err end
  if #found.reachable == 0 then return nil, none_found(found) end
  if #found.reachable > 1 then return nil, several_found(found) end
  local endpoint = found.reachable[1]
  return target(endpoint.pid, endpoint.start_time, endpoint, endpoint.info, true)
end

--- The process that a call is about: the given one, or the only .NET process there is.
---@param _ctx table
---@param pid integer?    nil or 0: the lone one
---@param options? { any: boolean }   any: a given pid may be any process; a target without `endpoint` is no (reachable) .NET
---@return TargetProcess?, table? err   NoDotnetProcessFound, AmbiguousDotnetProcess, ProcessNotFound, NotADotnetProcess,
--- EndpointUnavailable
---@nodiscard
function M.resolve(_ctx, pid, options)
  if not pid or pid == 0 then return resolve_lone() end
  local resolved, err = resolve_explicit(pid)
  if resolved or not (options and options.any) or err.kind == "Cancelled" then return resolved, err end
  local stat, gone = proc.stat(pid)
  if not stat then return nil, as_resolution(gone, pid) end
  resolved = target(pid, stat.start_time, nil, nil, false)
  resolved.why_not = err
  return resolved
end

--- Whether we may read the memory of a process, as far as its files below /proc tell: then what needs no socket helps where there is none.
---@param pid integer?
---@return boolean
function M.can_read(pid) return pid ~= nil and pid ~= 0 and proc.environ(pid) ~= nil end

--- The process that the kernel is asked about, or whose memory is read: as resolve, but a .NET process that is named and whose diagnostics
--- socket cannot be used will do, too (most programs of NativeAOT, DOTNET_EnableDiagnostics=0, another user's, one that hangs or was
--- stopped). Then it has no `record`, and `why_not`.
---@param ctx table
---@param pid integer?    nil or 0: the lone one
---@return TargetProcess?, table? err   as resolve
---@nodiscard
function M.without_socket(ctx, pid)
  local resolved, err = M.resolve(ctx, pid)
  if resolved or err.kind ~= "EndpointUnavailable" or not pid or pid == 0 then return resolved, err end
  local stat, endpoint = proc.stat(pid), ipc.resolve(pid, M.PROBE_MS)
  if not stat or not endpoint then return nil, err end
  resolved = target(pid, stat.start_time, endpoint, nil, false)
  resolved.why_not = err
  return resolved
end

return M
