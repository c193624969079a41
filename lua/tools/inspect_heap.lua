-- SPDX-License-Identifier: MIT
-- inspect_heap: what a managed heap holds: of a live process (suspended while its heap is copied), of a core dump, or of a snapshot that
-- the runtime's own events tell. Everything stays behind a handle.
local lazy = require("lunette.lazy")
local artifacts = lazy("heap.artifact")
local captures = require("lunette.captures")
local config = require("lunette.config")
local errors = require("lunette.errors")
local fs = require("lunette.fs")
local gcdump = lazy("heap.gcdump")
local handles = require("lunette.handles")
local hints = require("lunette.hints")
local json = require("lunette.json")
local numbers = require("lunette.numbers")
local process = require("lunette.process")
local rules = require("lunette.rules.index")
local signal = require("lunette.signal")
local store = lazy("artifacts.store")
local symbol_path = lazy("samplers.symbol_path")
local text = require("lunette.text")
local tool = require("lunette.tool")
local walk = lazy("heap.walk")
local wire = lazy("heap.wire")

local KIND <const> = "heap-snapshot"
local WALKED <const> = { "live", "dump" }
local ORDER <const> = { __order = {
  "source", "handle", "processId", "suspendDuration", "forkDuration", "filePath", "fileSizeBytes", "runtime", "heap", "topTypesByBytes",
  "topTypesByInstances", "retentionPaths", "warnings", "quality", "exportedTracePath",
} }
local HEAD <const> = 24 -- bytes that tell what a file is

-- ---- where the heap is ------------------------------------------------------------------------------------------------------------

local function form_of(path)
  local head = fs.head(path, HEAD) or ""
  if head:find("!FastSerialization.1", 1, true) then return "gcdump" end
  return head:sub(1, 8) == "Nettrace" and "recording" or "core"
end

-- What looks at objects, and so is nothing for who only counts them.
local LOOKS <const> = { "includeRetentionPaths", "includeStaticFields", "includeDelegateTargets", "includeDuplicateStrings" }

local function check_totals(args)
  for _, name in ipairs(LOOKS) do
    if args[name] then return nil, errors.invalid(name, ("detail=totals counts objects and looks at none: leave %s or detail out.")
      :format(name)) end
  end
  if args.freeze == "fork" then return nil, errors.invalid("freeze", "detail=totals counts where the heap lies: leave freeze out.") end
  return true
end

local function check(args, call)
  local given = call.explicit
  if args.detail == "totals" then
    local ok, err = check_totals(args)
    if not ok then return nil, err end
  end
  if not given.dumpFilePath then return true end
  if given.processId then return nil, errors.invalid("processId", "A file is read, not a process: leave processId out.") end
  if args.source == "gcdump" and args.exportTrace then
    return nil, errors.invalid("exportTrace", "exportTrace keeps the stream of a live process; dumpFilePath is a file already.")
  end
  return true
end

-- ---- the answer -------------------------------------------------------------------------------------------------------------------

local function sentence(artifact, rows)
  local info, first = artifact.info, rows[1]
  local where = artifact.dump_path and artifact.dump_path:match("[^/]+$") or ("Process %d"):format(artifact.process_id)
  local stood = artifact.suspend_ms and (" The target stood still for %.0f ms."):format(artifact.suspend_ms) or ""
  local missing = artifact.sizes and artifact.sizes.missing or 0
  local lacks = missing > 0 and (" The dump lacks %s of the heap, and the objects there."):format(text.bytes(missing)) or ""
  if artifact.quality and not artifact.quality.gc_stopped then lacks = " The capture broke off: these are lower bounds." end
  if not first then return where .. ": the heap holds no objects." .. lacks .. stood end
  return ("%s: %d objects, %s. Most: %s (%d, %.0f %%).%s%s"):format(where, info.objects, text.bytes(info.bytes),
    wire.name(first.name), first.count, wire.percent(first.bytes, info.bytes), lacks, stood)
end

local function chains(artifact, args, entry)
  if not args.includeRetentionPaths then return nil end
  local ok, err = artifacts.analysed(artifact, "retention-paths", entry)
  if not ok then
    artifact.warnings[#artifact.warnings + 1] = "RetentionPaths: " .. tostring(err.message)
    return nil
  end
  local rows = artifact.graph:types { by = "bytes", top = artifacts.EXAMPLE_TYPES }
  return artifacts.paths(artifact, rows, args.retentionPathLimit)
end

local function next_steps(artifact, entry, rows)
  local list, id = {}, rows[1] and wire.identity(artifact, rows[1])
  if id and id.moduleVersionId and id.metadataToken then
    list[1] = hints.new("dotnet-assembly-mcp.get_method", "Look at the code of the largest type.", {
      moduleVersionId = id.moduleVersionId, metadataToken = id.metadataToken, typeFullName = id.typeFullName,
      assemblyPathHint = id.modulePath,
    })
  else
    list[1] = hints.new("query_snapshot", "See more types.", { handle = entry.id, view = "top-types" })
  end
  if artifact.totals then
    list[#list + 1] = hints.new("inspect_heap", "Keep the objects too: retained sizes, chains, handles, timers.", {
      source = artifact.origin, processId = not artifact.dump_path and artifact.process_id or nil, dumpFilePath = artifact.dump_path })
    return list
  end
  list[#list + 1] = hints.new("query_snapshot", "See what would go with each type: its retained size.",
    { handle = entry.id, view = "retained" })
  list[#list + 1] = hints.new("query_snapshot", "See what keeps the largest types.", { handle = entry.id, view = "retention-paths" })
  return list
end

local function answer(artifact, args, live)
  artifacts.complete(artifact)
  artifact.retention_limit = args.retentionPathLimit
  local entry = handles.put {
    kind = KIND, artifact = artifact, process_id = artifact.process_id, process_start = live and live.start_time, origin = artifact.origin,
    started_unix_ms = artifact.started_unix_ms, duration_ms = artifact.duration_ms,
    collector = { tool = "inspect_heap", arguments = {
      source = args.source, processId = live and live.pid, dumpFilePath = args.dumpFilePath } },
  }
  local top, graph = args.topTypes, artifact.graph
  local rows, all = graph:types { by = "bytes", top = top }
  local paths, err = chains(artifact, args, entry)
  if err then return nil, err end
  local signals = signal.of_capture(KIND, artifact, entry.id)
  local data = setmetatable({
    source = artifact.origin, handle = entry.id, processId = artifact.process_id ~= 0 and artifact.process_id or nil,
    suspendDuration = artifact.suspend_ms and numbers.timespan(artifact.suspend_ms),
    forkDuration = artifact.stop and artifact.stop.forkMs and numbers.timespan(artifact.stop.forkMs), filePath = artifact.dump_path,
    fileSizeBytes = artifact.dump_bytes, runtime = artifact.runtime, heap = artifacts.heap(artifact),
    topTypesByBytes = wire.type_stats(artifact, rows),
    topTypesByInstances = wire.type_stats(artifact, (graph:types { by = "instances", top = top })), retentionPaths = paths,
    warnings = #artifact.warnings > 0 and json.array { table.unpack(artifact.warnings) } or nil,
    quality = artifacts.quality(artifact, all > top), exportedTracePath = artifact.exported_trace,
  }, ORDER)
  return data, {
    summary = sentence(artifact, rows), handle = entry, process = live, signals = signals,
    hints = rules.hints(KIND, { artifact = artifact, signals = signals, handle_id = entry.id, process_id = live and live.pid },
      next_steps(artifact, entry, rows)),
  }
end

-- ---- the sources ------------------------------------------------------------------------------------------------------------------

-- A dump that is too small: the way out is another dump, or, of a small one, its threads.
local function without_heap(err)
  if err.kind ~= "NotSupported" then return nil end
  return errors.not_supported(err.message, {
    hints.new("collect_process_dump", "Write one that has the heap, if the process still runs.", { dumpType = "WithHeap" }, "high"),
  })
end

local function of_file(ctx, args)
  local path, err = store.readable(ctx, args.dumpFilePath, "dumpFilePath")
  if not path then return nil, err end
  local form = form_of(path)
  local artifact
  if form == "gcdump" then
    artifact, err = gcdump.of_file(path)
  elseif form == "recording" then
    artifact, err = gcdump.of_recording(ctx, path)
  elseif args.source == "gcdump" then
    return nil, errors.invalid("dumpFilePath", "This is neither a .gcdump file nor a .nettrace recording; a core dump goes with "
      .. "source=dump.")
  else
    artifact, err = walk.walk(ctx, { path = path, totals = args.detail == "totals", retention = true,
      statics = args.includeStaticFields, delegates = args.includeDelegateTargets, strings = args.includeDuplicateStrings })
    if artifact then artifact.origin, artifact.retention = "dump", args.includeRetentionPaths end
  end
  if not artifact then return nil, form == "core" and without_heap(err) or err end
  local stat = fs.stat(path)
  artifact.dump_path, artifact.dump_bytes = args.dumpFilePath, stat and stat.size
  return answer(artifact, args, nil)
end

-- Of a process whose socket does not answer, a walk still tells the heap.
local function silent(err, pid)
  if err.kind ~= "EndpointUnavailable" or not process.can_read(pid) then return err end
  return errors.new(err.kind, err.message .. " source=live needs no socket, but ptrace.", {
    detail = err.detail, process_id = pid, hints = {
      hints.new("inspect_heap", "Walk the heap itself.", { source = "live", processId = pid }, "high"),
      hints.new("inspect_process", "Find what is in the way, with the fix.", { view = "preflight", processId = pid }),
    },
  })
end

local function of_gcdump(ctx, args)
  if args.dumpFilePath then return of_file(ctx, args) end
  local target, err = process.resolve(ctx, args.processId)
  if not target then return nil, silent(err, args.processId) end
  err = gcdump.unfit(target)
  if err then return nil, err end
  local artifact
  artifact, err = gcdump.collect(ctx, target, args.exportTrace)
  if not artifact then return nil, err end
  return answer(artifact, args, target)
end

local function of_live(ctx, args)
  local target, err = process.without_socket(ctx, args.processId)
  if not target then return nil, err end
  if target.digest.runtime == "NativeAot" then
    return nil, errors.not_supported(("Process %d is NativeAOT: there is no library that knows its heap."):format(target.pid))
  end
  local artifact
  artifact, err = walk.walk(ctx, { process = target, freeze = args.freeze, totals = args.detail == "totals",
    retention = args.includeRetentionPaths, statics = args.includeStaticFields, delegates = args.includeDelegateTargets,
    strings = args.includeDuplicateStrings })
  if not artifact then return nil, err end
  artifact.origin, artifact.retention = "live", args.includeRetentionPaths
  return answer(artifact, args, target)
end

local GC_RISK <const> = {
  level = "high", target_impact = "moderate", data_exposure = "metadata",
  reason = "The runtime collects its whole heap and stands still while it tells of every object: about a second for each 2 million.",
  side_effects = { "a blocking collection of generation 2 in the target" },
  mitigations = { "the session is closed as soon as the collection has ended" },
}
local FILE_RISK <const> = {
  level = "moderate", target_impact = "none", data_exposure = "content", reason = "Reads the heap of a dump; no process is touched.",
}
local LIVE_RISK <const> = {
  level = "high", target_impact = "high", data_exposure = "content",
  reason = "Attaches by ptrace and suspends the target while its heap is copied.",
  side_effects = { "suspends the target" }, mitigations = { "it is resumed on every path, also when this server is killed" },
}
local FORK_RISK <const> = {
  level = "high", target_impact = "high", data_exposure = "content",
  reason = "Attaches by ptrace, makes a thread of the target execute a clone, and reads the copy-on-write child; the target is "
    .. "suspended only for that.",
  side_effects = { "suspends the target", "executes system calls in the target", "what the target writes meanwhile takes memory twice" },
  mitigations = { "the thread finds its way back also when this server is killed", "the memory is estimated first and watched",
    "the child never runs, and is killed and reaped" },
}
local ALLOW_FORK <const> = "Diagnostics:AllowProcessFork"

local function fork_refused(args)
  if args.freeze ~= "fork" or config.get(ALLOW_FORK) then return nil end
  return errors.not_supported(("freeze=fork makes the target execute system calls, so it is off unless the operator sets %s (%s) "
    .. "to true; freeze=copy needs no such thing."):format(ALLOW_FORK, config.variable(ALLOW_FORK)),
    { hints.new("inspect_heap", "Copy the heap instead.", { source = "live", processId = args.processId }) })
end

-- ---- captures of a watch ----------------------------------------------------------------------------------------------------------

local function captured(ctx, arguments)
  local this = require("tools.inspect_heap")
  local call, err = this:prepare(ctx, arguments, { authorised = true })
  if not call then return nil, err end
  local data, extras = this:perform(ctx, call)
  if data == nil then return nil, extras end
  return { handle = extras.handle }
end

-- The walk stops the target for less time than a collection does; where it cannot attach, the runtime's own events do.
captures.announce("heap", {
  view = "top-types",
  capture = function(ctx, target)
    local done, err = captured(ctx, { source = "live", processId = target.pid, includeRetentionPaths = true })
    if done or err.kind == "Cancelled" or err.kind == "ProcessExited" then return done, err end
    return captured(ctx, { source = "gcdump", processId = target.pid })
  end,
})

local function symbols_refused(ctx, args) return args.symbolPath and symbol_path.refused(ctx, args) or nil end

return tool {
  name = "inspect_heap", title = "Inspect a managed heap",
  description = "Types, sizes and what keeps them of a managed heap: live (suspends the process), dump (a core dump or .gcdump file), "
    .. "gcdump (by the runtime's events, no ptrace). The whole object graph stays behind a handle.",
  scopes = { list = { "heap-read" } },
  discriminator = "source",
  params = {
    { "source", "string", required = true, trim = true, enum = { "live", "dump", "gcdump" }, note = "Where the heap is." },
    tool.process_id { applies_to = { "live", "gcdump" }, refused_for = { "dump" } },
    {
      "dumpFilePath", "string?", applies_to = { "dump", "gcdump" }, required_for = { "dump" }, refused_for = { "live" },
      note = "A core dump, .gcdump or .nettrace file.",
    },
    {
      "freeze", "string", default = "copy", trim = true, enum = { "copy", "fork" }, applies_to = { "live" },
      refused_for = { "dump", "gcdump" }, note = "fork: shorter stop; must be configured.",
    },
    {
      "detail", "string", default = "graph", trim = true, enum = { "graph", "totals" }, applies_to = WALKED, refused_for = { "gcdump" },
      note = "totals: objects by type only; any size in little memory.",
    },
    { "topTypes", "int", default = 20, min = 1, clamp_to = 200, note = "Rows of each list; the handle has all." },
    { "includeRetentionPaths", "bool", default = false, applies_to = WALKED, note = "A chain from a root to each top type." },
    { "retentionPathLimit", "int", default = 8, min = 1, clamp_to = 64, note = "Length of a chain." },
    { "includeStaticFields", "bool", default = false, applies_to = WALKED, note = "Static fields by size." },
    { "includeDelegateTargets", "bool", default = false, applies_to = WALKED, note = "Who subscribes to events." },
    { "includeDuplicateStrings", "bool", default = false, applies_to = WALKED, note = "Equal strings by bytes." },
    { "symbolPath", "string?", applies_to = WALKED, note = "As _NT_SYMBOL_PATH." },
    { "exportTrace", "bool", default = false, applies_to = { "gcdump" }, note = "Keep the .nettrace for get_bytes." },
  },
  check = check,
  branches = {
    live = {
      description = "Suspends the process while its heap is copied.", scopes = { "heap-read", "ptrace" }, task = true,
      risk = function(_, args) return args.freeze == "fork" and FORK_RISK or LIVE_RISK end, max_risk = FORK_RISK,
      payload = "HeapInspectionResult", run = of_live,
      unavailable = function(ctx, args) return fork_refused(args) or symbols_refused(ctx, args) end,
    },
    dump = {
      description = "A core dump, or a .gcdump file.", scopes = { "heap-read" }, risk = FILE_RISK, task = true,
      payload = "HeapInspectionResult", run = of_file, unavailable = symbols_refused,
    },
    gcdump = {
      description = "By the events of one induced collection; no ptrace.", scopes = { "heap-read" },
      risk = function(_, args) return args.dumpFilePath and FILE_RISK or GC_RISK end, max_risk = GC_RISK,
      payload = "HeapInspectionResult", run = of_gcdump,
    },
  },
}
