-- SPDX-License-Identifier: MIT
-- runtime-config: with which settings a process was started: its runtimeconfig.json and its environment, both filtered to what belongs to
-- the runtime; and what the garbage collector and the thread pool made of them, read from the process itself.
local artifacts = require("lunette.artifacts")
local hints = require("lunette.hints")
local json = require("lunette.json")
local loop = require("lunette.loop")
local proc = require("lunette.proc")
local process = require("lunette.process")
local redaction = require("lunette.redaction")
local settings = require("memory.settings")
local sys = require("lunette.sys")

local M = {}

local ENV_PREFIXES <const> = { "DOTNET_", "COMPlus_", "ASPNETCORE_" } -- DOTNET_SYSTEM_ is among the first
local KEY_PREFIXES <const> = { "System.", "Microsoft.", "Switch.", "Windows.", "Internal." }
local MAX_FILE <const> = 1024 * 1024
local MAX_ROWS <const> = 500 -- of the environment, and of switches
local MAX_VALUE <const> = 2048
local ENV_NOTE <const> = "Environment variables are filtered to known runtime prefixes (DOTNET_ / COMPlus_ / ASPNETCORE_ / "
  .. "DOTNET_SYSTEM_); all other process env vars are intentionally omitted as a security boundary."
local LOH_NOTE <const> = "gc.largeObjectHeapCompactionMode is left out: the collector keeps it in a variable that the runtime's library "
  .. "does not show. GCSettings.LargeObjectHeapCompactionMode is Default but between a program's CompactOnce and its next blocking full "
  .. "collection."
local ORDER <const> = { __order = { "processId", "gc", "threadPool", "tieredCompilation", "envVars", "appContextSwitches", "notes" } }
local GC_ORDER <const> = { __order = { "isServerGc", "isConcurrent", "isBackground", "heapCount", "largeObjectHeapCompactionMode" } }
local POOL_ORDER <const> = { __order = {
  "minWorkerThreads", "maxWorkerThreads", "minIocpThreads", "maxIocpThreads", "hillClimbingEnabled" } }
local ROW <const> = { __order = { "name", "value" } }

local function begins_with_one(text, prefixes)
  for _, prefix in ipairs(prefixes) do
    if text:sub(1, #prefix) == prefix then return true end
  end
  return false
end

-- A value without secrets: by its name, and by what it is.
local function plain(name, value)
  local shown = redaction.redact(name .. "=" .. sys.utf8_sanitize(value))
  shown = shown:sub(1, #name + 1) == name .. "=" and shown:sub(#name + 2) or redaction.redact(sys.utf8_sanitize(value))
  return sys.utf8_cut(shown, MAX_VALUE)
end

local function sorted(rows, what, notes)
  table.sort(rows, function(a, b) return a.name < b.name end)
  if #rows > MAX_ROWS then notes[#notes + 1] = ("%s: the first %d of %d are listed."):format(what, MAX_ROWS, #rows) end
  for i = #rows, MAX_ROWS + 1, -1 do rows[i] = nil end
  return json.array(rows)
end

--- The variables that belong to the runtime: rows, and their raw values by name.
---@param lines string[]   "NAME=VALUE"
---@return table[] rows, table<string, string> by_name
function M.environment(lines)
  local rows, by_name = {}, {}
  for _, line in ipairs(lines) do
    local name, value = line:match("^([^=]+)=(.*)$")
    if name and begins_with_one(name, ENV_PREFIXES) then
      rows[#rows + 1] = setmetatable({ name = sys.utf8_sanitize(name), value = plain(name, value) }, ROW)
      by_name[name] = value
    end
  end
  return rows, by_name
end

-- A number of the runtime's environment is hexadecimal.
local function flag(by_name, name)
  local value = by_name["DOTNET_" .. name] or by_name["COMPlus_" .. name]
  local number = value and tonumber(value:match("^%s*0?[xX]?(%x+)%s*$") or "", 16)
  if not number then return nil end
  return number ~= 0
end

--- TieredCompilationConfig from the environment; nil without an override.
function M.tiering(by_name)
  local t = setmetatable({
    enabled = flag(by_name, "TieredCompilation"), quickJitEnabled = flag(by_name, "TC_QuickJit"),
    dynamicPgoEnabled = flag(by_name, "TieredPGO"),
  }, { __order = { "enabled", "quickJitEnabled", "dynamicPgoEnabled" } })
  return next(t) ~= nil and t or nil
end

-- ---- runtimeconfig.json ---------------------------------------------------------------------------------------------------------

-- Where it may lie, best first: what the command line names, beside the entry assembly, beside the program.
local function candidates(target)
  local list = {}
  local function add(path) list[#list + 1] = path end
  local cwd = proc.link(target.pid, "cwd")
  local words = proc.cmdline(target.pid) or {}
  for i, word in ipairs(words) do
    local named = word == "--runtimeconfig" and words[i + 1]
    if named then add(named:sub(1, 1) == "/" and named or (cwd or "") .. "/" .. named) end
  end
  local entry = target.record and target.record.managedEntrypointAssemblyName
  local maps = proc.maps(target.pid)
  for _, path in ipairs(maps and maps.files or {}) do
    if entry and path:match("([^/]+)%.%w+$") == entry then add(path:gsub("%.%w+$", "") .. ".runtimeconfig.json") end
  end
  for _, word in ipairs(words) do
    if word:find("^/.*%.dll$") then add((word:gsub("%.dll$", ".runtimeconfig.json"))) end
  end
  local exe = proc.link(target.pid, "exe")
  if exe then add(exe .. ".runtimeconfig.json") end
  return list
end

local function find_file(target)
  for _, path in ipairs(candidates(target)) do
    local piece = artifacts.read_of(target.pid, path, 0, MAX_FILE)
    if piece and piece.size <= MAX_FILE then return path, piece.bytes end
  end
  return nil
end

--- The switches of a runtimeconfig.json that belong to the runtime: rows, and all values by key; nil when the text is none.
---@param text string
---@return table[]? rows, table<string, string>? by_key
function M.switches(text)
  local decoded = json.decode((text:gsub("^\xef\xbb\xbf", "")))
  local options = type(decoded) == "table" and decoded.runtimeOptions
  if type(options) ~= "table" then return nil end
  local rows, by_key = {}, {}
  for key, value in pairs(type(options.configProperties) == "table" and options.configProperties or {}) do
    if type(key) == "string" and begins_with_one(key, KEY_PREFIXES) and (type(value) ~= "table" or value == json.null) then
      local shown = value ~= json.null and tostring(value) or nil
      rows[#rows + 1] = setmetatable({ name = key, value = shown and plain(key, shown) }, ROW)
      by_key[key] = shown
    end
  end
  return rows, by_key
end

local function switches_of(target, notes)
  local path, text = find_file(target)
  if not path then
    notes[#notes + 1] = "No runtimeconfig.json was found beside the main module (a single-file program has it inside, NativeAOT has none): "
      .. "appContextSwitches is empty."
    return {}, {}
  end
  local rows, by_key = M.switches(text)
  if not rows then
    notes[#notes + 1] = ("%s is no runtimeconfig: appContextSwitches is empty."):format(path)
    return {}, {}
  end
  notes[#notes + 1] = ("AppContext switches were read offline from %s (runtimeOptions.configProperties); post-startup AppContext.SetSwitch "
    .. "overrides are not reflected."):format(path)
  return rows, by_key
end

-- ---- what the process made of it ------------------------------------------------------------------------------------------------

local function truth(text)
  text = text and text:lower()
  if text == "true" or text == "1" then return true end
  if text == "false" or text == "0" then return false end
  return nil
end

-- A setting by its variable, else by its key, else what the runtime does by itself.
local function setting(by_name, variable, by_key, key, otherwise)
  local value = flag(by_name, variable)
  if value == nil then value = truth(by_key[key]) end
  if value == nil then return otherwise end
  return value
end

local function gc_of(seen, by_name, by_key)
  if not seen or seen.isServerGc == nil then return nil end
  local concurrent = setting(by_name, "gcConcurrent", by_key, "System.GC.Concurrent", true)
  return setmetatable({
    isServerGc = seen.isServerGc, heapCount = seen.heapCount, isConcurrent = concurrent, isBackground = concurrent,
  }, GC_ORDER)
end

-- A number of the pool by its variable (hexadecimal), else by its key.
local function configured(by_name, variable, by_key, key)
  local value = by_name["DOTNET_" .. variable] or by_name["COMPlus_" .. variable]
  return value and tonumber(value:match("^%s*0?[xX]?(%x+)%s*$") or "", 16) or math.tointeger(tonumber(by_key[key]))
end

local function pool_of(seen, by_name, by_key)
  if not seen or seen.isServerGc == nil then return nil end
  local off = flag(by_name, "HillClimbing_Disable")
  if off == nil then off = truth(by_key["System.Threading.ThreadPool.HillClimbing.Disable"]) end
  local pool = seen.threadPool or {
    minWorkerThreads = configured(by_name, "ThreadPool_ForceMinWorkerThreads", by_key, "System.Threading.ThreadPool.MinThreads"),
    maxWorkerThreads = configured(by_name, "ThreadPool_ForceMaxWorkerThreads", by_key, "System.Threading.ThreadPool.MaxThreads"),
  }
  return setmetatable({
    minWorkerThreads = pool.minWorkerThreads, maxWorkerThreads = pool.maxWorkerThreads, minIocpThreads = pool.minIocpThreads,
    maxIocpThreads = pool.maxIocpThreads, hillClimbingEnabled = not off,
  }, POOL_ORDER)
end

local function next_step(target, pool)
  if pool and pool.hillClimbingEnabled == false then
    return hints.new("collect_events", "The pool does not adapt: see how it copes.",
      { kind = "threadpool", durationSeconds = 6, processId = target.pid })
  end
  return hints.new("collect_events", "Read its counters.", { kind = "counters", durationSeconds = 5, processId = target.pid })
end

local function sentence(view)
  local gc = view.gc and ("%s GC, %d heap%s"):format(view.gc.isServerGc and "server" or "workstation", view.gc.heapCount,
    view.gc.heapCount == 1 and "" or "s") or "its GC could not be read"
  local pool = view.threadPool and view.threadPool.maxWorkerThreads and view.threadPool.minWorkerThreads
    and (", pool %d to %d workers"):format(view.threadPool.minWorkerThreads, view.threadPool.maxWorkerThreads) or ""
  return ("Process %d: %s%s; %d runtime variables, %d switches."):format(view.processId, gc, pool, #view.envVars, #view.appContextSwitches)
end

--- inspect_process(view="runtime-config").
function M.run(ctx, args)
  local target, err = process.without_socket(ctx, args.processId)
  if not target then return nil, err end
  local notes = { ENV_NOTE }
  local lines
  lines, err = proc.environ(target.pid)
  if not lines then
    if err.kind == "ProcessNotFound" or err.kind == "Cancelled" then return nil, err end
    notes[#notes + 1] = ("envVars: %s."):format(tostring(err.message or err))
  end
  local env, by_name = M.environment(lines or {})
  local switches, by_key = switches_of(target, notes)
  local seen
  seen, err = settings.read(ctx, target)
  if not seen then
    if loop.cancelled() or err.kind == "ProcessExited" then return nil, err end
    notes[#notes + 1] = ("gc, threadPool: %s."):format((tostring(err.message or err):gsub("%.$", "")))
  end
  for _, note in ipairs(seen and seen.notes or {}) do notes[#notes + 1] = note end
  local gc = gc_of(seen, by_name, by_key)
  if gc then notes[#notes + 1] = LOH_NOTE end
  local view = setmetatable({
    processId = target.pid, gc = gc, threadPool = pool_of(seen, by_name, by_key),
    tieredCompilation = M.tiering(by_name), envVars = sorted(env, "envVars", notes),
    appContextSwitches = sorted(switches, "appContextSwitches", notes), notes = json.array(notes),
  }, ORDER)
  return view, { summary = sentence(view), process = target, hints = { next_step(target, view.threadPool) } }
end

return M
