-- SPDX-License-Identifier: MIT
-- gcdump: a heap snapshot by events of the runtime: it collects once, stands still and tells of all objects, references and roots. No
-- ptrace. The same of a recorded stream, and of the .gcdump files of other tools.
local errors = require("lunette.errors")
local events = require("lunette.events")
local fs = require("lunette.fs")
local graph = require("lunette.graph")
local hints = require("lunette.hints")
local loop = require("lunette.loop")
local proc = require("lunette.proc")
local progress = require("lunette.progress")
local symbols = require("lunette.symbols")
local traces = require("samplers.traces")

local M = {}

M.TIMEOUT_MS = 120000  -- from the session's start to the end of the collection: 30 million objects take about a minute
M.STOP_MS, M.TURN_MS = 15000, 50
-- The runtime answers when it has told everything: all events wait in a buffer in the target, which takes memory as far as it is needed.
-- They are about as large as the heap. What finds no room is lost, and said; a target with a limit on its memory must not meet it.
M.LEAST_MB, M.MOST_MB, M.SPARE_MB = 256, 4095, 64
M.MAX_MODULES = 4096
local RUNTIME <const> = "Microsoft-Windows-DotNETRuntime"
local KEYWORDS <const> = "0x1980001" -- GC, GCHeapDump, GCHeapAndTypeNames, Type, ManagedHeapCollect
local MODULES <const> = "0x8"        -- of the rundown: the paths of modules
local NS_PER_MS <const>, MB <const> = 1e6, 1 << 20
local FEW_TYPES <const>, MANY_OBJECTS <const> = 0.5, 1000

local function memory_left(pid)
  local file = io.open("/proc/meminfo", "r")
  local text = file and file:read("a") or ""
  if file then file:close() end
  local left = tonumber(text:match("MemAvailable:%s+(%d+)"))
  left = left and left * 1024 or math.huge
  local group = proc.cgroup(pid)
  local memory = group and group.memory
  if memory and memory.max_bytes and memory.current_bytes then left = math.min(left, memory.max_bytes - memory.current_bytes) end
  return left
end

-- How large the buffer in the target may become, in megabytes.
local function buffer_of(pid)
  local status = proc.status(pid)
  local heap_mb = (status and status.rss_bytes or 0) // MB
  local left_mb = math.min(memory_left(pid) // MB, M.MOST_MB + M.SPARE_MB) - M.SPARE_MB
  return math.tointeger(math.max(1, math.min(M.MOST_MB, math.max(M.LEAST_MB, heap_mb), left_mb)))
end

local function has_ended(collector, source, deadline)
  while true do
    local left = deadline - loop.now_ms()
    if left <= 0 then return "timeout" end
    local batch, err = source:next(math.max(1, math.min(500, left)))
    if collector:progress().stopped then return "stopped" end
    if not batch and err.kind == "NotFound" then return "stream-end" end
    if not batch and err.kind ~= "Timeout" then return nil, err end
  end
end

-- Nobody reads the events that were meant to wake us.
local function drain(source)
  while true do
    local batch, err = source:next(M.STOP_MS)
    if not batch then return err.kind == "Cancelled" and err or nil end
  end
end

local function stream(ctx, open)
  local collector <close>, err = graph.collector {}
  if not collector then return nil, err end
  open.tap, open.want = collector, { { provider = RUNTIME, event = "GC/Stop" } }
  loop.set_budget(-1)
  local began = loop.now_ns()
  local source <close>, open_err = events.open(open)
  if not source then return nil, open_err end
  local opened, started_unix_ms = loop.now_ns(), loop.unix_ms()
  local _ <close> = progress.start(ctx, { message = "Reading the heap" })
  local ended
  ended, err = has_ended(collector, source, loop.now_ms() + M.TIMEOUT_MS)
  if not ended then return nil, err end
  local told = loop.now_ns()
  local summary
  summary, err = source:stop(M.STOP_MS)
  if not summary then return nil, err end
  err = drain(source)
  if err then return nil, err end
  local drained = loop.now_ns()
  local made, quality = collector:build()
  if not made then return nil, quality, ended, summary end
  return {
    graph = made, quality = quality, ended = ended, summary = summary, started_unix_ms = started_unix_ms,
    ms = { open = (opened - began) / NS_PER_MS, told = (told - opened) / NS_PER_MS, drain = (drained - told) / NS_PER_MS,
      build = (loop.now_ns() - drained) / NS_PER_MS },
  }
end

-- ---- what the stream tells of itself --------------------------------------------------------------------------------------------

local function add_warnings(artifact, done)
  local w, q, info = artifact.warnings, done.quality, artifact.graph:info()
  if done.ended == "timeout" then
    w[#w + 1] = ("TimedOut: the collection had not ended after %d s; what came until then is kept."):format(M.TIMEOUT_MS // 1000)
  elseif not q.gc_stopped then
    w[#w + 1] = "Incomplete: the stream ended before the collection did; totals are lower bounds."
  end
  if q.gaps > 0 then
    w[#w + 1] = ("EventsMissing: by their own numbers %d events of the collection are missing (the target had no room to keep them): "
      .. "totals are lower bounds, and references are not known. source=live walks heaps of any size."):format(q.gaps)
  end
  if info.missing > 0 then w[#w + 1] = ("ReferencesMissing: %d references were announced and never came."):format(info.missing) end
  if info.dropped_objects > 0 then
    w[#w + 1] = ("ObjectsDropped: %d objects beyond the first %d found no room."):format(info.dropped_objects, info.objects)
  end
  if info.unnamed_types > 0 and info.objects > MANY_OBJECTS and info.unnamed_types > FEW_TYPES * info.types then
    w[#w + 1] = "NamesMissing: the runtime had told the names of types to another session that is still open (a type is told once): end "
      .. "other tools on this process and take the snapshot again."
  elseif info.unnamed_types > 0 then
    w[#w + 1] = ("NamesMissing: the names of %d types never came; they are named UNKNOWN."):format(info.unnamed_types)
  end
end

local function quality_of(done)
  local q = done.quality
  return {
    timed_out = done.ended == "timeout", reader_failed = q.bad > 0, gc_stopped = q.gc_stopped, completed = done.summary.complete ~= false,
    no_name = q.no_name, gaps = q.gaps,
  }
end

-- Version ids of modules whose files are here, by path.
local function module_ids(made, live)
  local requests, paths, seen = {}, {}, {}
  for _, row in ipairs((made:types { by = "bytes", top = M.MAX_MODULES })) do
    local path = row.module_path
    if path and path:sub(1, 1) == "/" and not seen[path] then
      seen[path] = true
      local inside = live and ("/proc/%d/root%s"):format(live.pid, path)
      requests[#requests + 1], paths[#paths + 1] = { path = inside and fs.stat(inside) and inside or path }, path
    end
  end
  local ids = {}
  for i, found in ipairs(#requests > 0 and symbols.modules(requests) or {}) do
    if found.mvid then ids[paths[i]] = found.mvid end
  end
  return ids
end

local function runtime_of(live)
  local record = live and live.record
  return {
    name = live and live.digest.runtime or "CoreClr", version = record and record.runtimeVersion or "unknown",
    architecture = record and record.processArchitecture or "unknown",
  }
end

local function artifact_of(done, live)
  local q = done.quality
  local artifact = {
    origin = "gcdump", graph = done.graph, process_id = live and live.pid or done.summary.pid or 0, quality = quality_of(done),
    started_unix_ms = done.summary.start_unix_ns and done.summary.start_unix_ns // 1000000 or done.started_unix_ms,
    duration_ms = done.ms.told + done.ms.drain + done.ms.build, suspend_ms = q.gc_ns and q.gc_ns / NS_PER_MS, sizes = q.sizes,
    runtime = runtime_of(live), retention = true, mvids = module_ids(done.graph, live), warnings = {}, phases = done.ms,
  }
  add_warnings(artifact, done)
  return artifact
end

-- ---- sources ----------------------------------------------------------------------------------------------------------------------

--- Why a process cannot give a gcdump, as an error; nil when it can.
function M.unfit(process)
  if process.digest.runtime ~= "NativeAot" then return nil end
  return errors.not_supported(("Process %d is NativeAOT: its runtime does not tell of its objects."):format(process.pid), {
    hints.new("inspect_process", "See what works here.", { view = "capabilities", processId = process.pid }, "high"),
    hints.new("collect_sample", "See what is allocated.", { kind = "allocation", processId = process.pid }),
  })
end

local running = {} -- processes of which a snapshot is being taken, by pid

-- The runtime tells a type to one session only: the second of two snapshots at a time would have no names. It waits for its turn.
local function turn(pid)
  while running[pid] do
    local ok, err = loop.sleep_ms(M.TURN_MS)
    if not ok then return nil, err end
  end
  running[pid] = true
  local function done() running[pid] = nil end
  return setmetatable({}, { __close = done })
end

--- Takes a snapshot of a live process.
---@param ctx table
---@param process TargetProcess
---@param export boolean   keep the stream as a file
---@return table? artifact, table? err
function M.collect(ctx, process, export)
  local held <close>, err = turn(process.pid)
  if not held then return nil, err end
  local trace
  if export then
    trace, err = traces.new(process.pid)
    if not trace then return nil, err end
  end
  local done, problem, ended = stream(ctx, {
    pid = process.pid, buffer_mb = buffer_of(process.pid), rundown = MODULES, save_to = trace and trace.path, timeout_ms = M.TIMEOUT_MS,
    providers = { { name = RUNTIME, keywords = KEYWORDS, level = 5 } },
  })
  if not done then
    if problem.kind == "NotFound" and ended then
      problem = errors.new("EndpointUnavailable", ("Process %d: %s."):format(process.pid, problem.message), { hints = {
        hints.new("inspect_heap", "Try again.", { source = "gcdump", processId = process.pid }, "high") } })
    end
    return nil, problem
  end
  local artifact = artifact_of(done, process)
  if trace and not done.summary.save_problem then
    artifact.exported_trace = trace:keep()
  elseif trace then
    artifact.warnings[#artifact.warnings + 1] = "TraceNotKept: " .. done.summary.save_problem
    trace:discard()
  end
  return artifact
end

local function bad_file(path, err)
  return errors.invalid("dumpFilePath", ("%s: %s."):format(path:match("[^/]+$"), tostring(err.message or err)))
end

--- Out of a recorded stream.
function M.of_recording(ctx, path)
  local done, err = stream(ctx, { path = path })
  if not done then return nil, err.kind == "Cancelled" and err or bad_file(path, err) end
  return artifact_of(done, nil)
end

--- Out of a .gcdump file.
function M.of_file(path)
  loop.set_budget(-1)
  local began = loop.now_ns()
  local made, info = graph.read_gcdump(path)
  if not made then return nil, info.kind == "Cancelled" and info or bad_file(path, info) end
  local stat = fs.stat(path)
  local warnings = {}
  if info.sampled then warnings[1] = "Sampled: the file holds only a part of the objects; counts and bytes are not scaled." end
  if info.undefined > 1 then
    warnings[#warnings + 1] = ("Undefined: %d objects are referred to in the file, but not described."):format(info.undefined)
  end
  return {
    origin = "gcdump", graph = made, process_id = info.pid or 0,
    started_unix_ms = info.unix_ms or stat and stat.mtime_ns // 1000000 or loop.unix_ms(),
    duration_ms = (loop.now_ns() - began) / NS_PER_MS, retention = true, warnings = warnings,
    quality = { timed_out = false, reader_failed = false, gc_stopped = true, completed = true, no_name = 0, gaps = 0 },
    runtime = { name = "CoreClr", version = "unknown", architecture = "unknown" },
  }
end

return M
