-- SPDX-License-Identifier: MIT
-- cpu: where threads stand, from the stack samples that the runtime takes about each millisecond of every thread, running or not.
local lazy = require("lunette.lazy")
local backend = lazy("samplers.backend")
local capture = lazy("samplers.capture")
local captures = require("lunette.captures")
local collector = require("lunette.collector")
local event_names = require("collectors.event_names")
local ilc = lazy("samplers.ilc")
local json = require("lunette.json")
local leaders = lazy("samplers.leaders")
local loop = require("lunette.loop")
local numbers = require("lunette.numbers")
local oncpu = lazy("samplers.oncpu")
local process = require("lunette.process")
local resource = lazy("samplers.resource")
local sources = lazy("samplers.sources")
local stops = lazy("samplers.stops")
local store = lazy("artifacts.store")
local symbol_path = lazy("samplers.symbol_path")
local traces = lazy("samplers.traces")
local waits = lazy("samplers.waits")
local wire = lazy("samplers.wire")

local SUMMARY_ROWS <const>, TOP <const> = 3, 25
local EVIDENCE <const> = { backend = "EventPipeSampleProfiler", kind = "StackFrequencyWithHeuristicWaits" }
local NS_PER_MS <const> = 1e6
local FEW_MS <const> = 10 -- a thread that ran at all is sampled each millisecond or so

local ORDER <const> = { __order = {
  "processId", "startedAt", "duration", "totalSamples", "evidence", "selfSamples", "timings", "topHotspots", "symbolSource",
  "exportedTracePath", "notes", "cost",
} }
local TIMINGS_ORDER <const> = { __order = {
  "captureDuration", "symbolicationDuration", "sourceLineResolutionDuration", "aggregationDuration", "totalDuration",
  "sessionStartDuration", "sessionDrainDuration", "methodInstantiationResolutionDuration",
} }

local function since(ns) return (loop.now_ns() - ns) / NS_PER_MS end

local function own_notes(artifact, live, names)
  local notes, info = artifact.notes, artifact.info
  if info.samples == 0 then
    notes[#notes + 1] = live and "NoSamples: no thread with managed code was sampled: the window was very short, or the process stands "
      .. "still." or artifact.ended_early and "NoSamples: no stack sample came before the recording stops." or
      "NoSamples: the recording has no stack samples: it was made without Microsoft-DotNETCore-SampleProfiler."
  elseif info.unresolved > 0 then
    notes[#notes + 1] = ("Unresolved: %d of %d samples have a leaf without a name%s."):format(info.unresolved, info.samples,
      artifact.untold and "" or ": code without metadata, or more than one method was at its address")
  end
  notes[#notes + 1] = stops.note(artifact.profile, info)
  if names.dropped > 0 then
    notes[#notes + 1] = ("WaitNames: %d names of waits were not used: a profile takes %d."):format(names.dropped, waits.MAX)
  end
end

-- What the phases of the capture, and those behind it, took. A recording has no session: reading it is part of making the tree.
local function phases_of(phases, rank_ms, looked_up, live)
  return {
    capture = live and phases.session_start + phases.window + phases.drain or 0, session_start = live and phases.session_start or 0,
    drain = live and phases.drain or 0, symbols = phases.names + looked_up.modules_ms, lines = looked_up.lines_ms,
    aggregation = phases.build - phases.names + rank_ms + (live and 0 or phases.window),
  }
end

-- Keeps the file of the stream, unless it could not be written.
local function keep_trace(artifact, trace, problem)
  if not problem then
    artifact.trace_path = trace:keep()
    return
  end
  artifact.notes[#artifact.notes + 1] = "TraceNotKept: " .. problem
  trace:discard()
end

-- Where threads run, by the kernel.
local function collect_os(ctx, source, args)
  local methods
  if args.nativeAotMapFile and source.process.digest.runtime == "NativeAot" then
    local path, err = store.readable(ctx, args.nativeAotMapFile, ilc.PARAMETER)
    if path then methods, err = ilc.read(path) end
    if not methods then return nil, err end
  end
  local artifact, phases = oncpu.run(ctx, source, args)
  if not artifact then
    local err = phases
    return nil, (err.kind == "PermissionDenied" or err.kind == "NotSupported") and backend.refused(err, source.process) or err
  end
  local info = artifact.info
  if info.samples == 0 then
    artifact.notes[#artifact.notes + 1] = "NoSamples: no thread of the process ran: it waits, is stopped, or the window was very short. "
      .. "collect_sample(kind=off_cpu) tells what it waits for."
  elseif info.unresolved > 0 then
    artifact.notes[#artifact.notes + 1] = ("Unresolved: %d of %d samples have a leaf without a name; they count as running all the same.")
      :format(info.unresolved, info.samples)
  end
  local ranked = loop.now_ns()
  artifact.hotspots = artifact.profile:top_methods { top = args.topN, rank_by = "inclusive" }
  artifact.symbol_source = oncpu.symbol_source(artifact)
  if methods then artifact.ilc = ilc.seen(artifact.profile, methods) end
  artifact.phases = phases_of(phases, since(ranked), sources.add(ctx, artifact, args, source.process), true)
  artifact.signals_resource, artifact.total_ms = resource.signals, since(args.asked_ns)
  return artifact
end

local function collect(ctx, source, args)
  if backend.is_os(source.process, args.cpuBackend) then return collect_os(ctx, source, args) end
  local live, trace = source.process, nil
  if args.exportTrace and live then
    local err
    trace, err = traces.new(live.pid)
    if not trace then return nil, err end
  end
  local names = waits.current()
  local artifact, phases = capture.run(ctx, source, args, {
    kind = "cpu", waits = names.names, il = args.resolveSourceLines, save_to = trace and trace.path or args.save_to,
    message = "Sampling stacks",
  })
  if not artifact then return nil, phases end
  artifact.evidence = EVIDENCE
  own_notes(artifact, live, names)
  local ranked = loop.now_ns()
  artifact.hotspots = artifact.profile:top_methods { top = args.topN, rank_by = "inclusive" }
  artifact.phases = phases_of(phases, since(ranked), sources.add(ctx, artifact, args, live), live)
  if trace then keep_trace(artifact, trace, phases.summary.save_problem) end
  artifact.signals_resource, artifact.total_ms = resource.signals, since(args.asked_ns)
  return artifact
end

local function timings(artifact)
  local p, span = artifact.phases, numbers.timespan
  return setmetatable({
    captureDuration = span(p.capture), symbolicationDuration = span(p.symbols), sourceLineResolutionDuration = span(p.lines),
    aggregationDuration = span(p.aggregation), totalDuration = span(artifact.total_ms), sessionStartDuration = span(p.session_start),
    sessionDrainDuration = span(p.drain), methodInstantiationResolutionDuration = span(0),
  }, TIMINGS_ORDER)
end

-- How many hotspots are inline: those that were asked for, else few at Summary.
local function rows_inline(args)
  if args.topN_given or args.depth ~= "Summary" then return args.topN end
  return math.min(SUMMARY_ROWS, args.topN)
end

local function inline(artifact, args)
  local rows = json.array({})
  for i = 1, math.min(rows_inline(args), #artifact.hotspots) do rows[i] = wire.hotspot(artifact, artifact.hotspots[i]) end
  return setmetatable({
    processId = artifact.process_id, startedAt = numbers.iso(artifact.started_unix_ms), duration = numbers.timespan(artifact.duration_ms),
    totalSamples = artifact.info.samples, evidence = wire.evidence(artifact), selfSamples = wire.split(artifact.info),
    timings = timings(artifact), topHotspots = rows, symbolSource = artifact.symbol_source, exportedTracePath = artifact.trace_path,
    notes = json.array(artifact.notes), cost = artifact.cost,
  }, ORDER)
end

-- Samples of the kernel: each is a moment in which a thread ran.
local function sentence_os(artifact)
  local info, rows = artifact.info, leaders.of(artifact, 1)
  if info.samples == 0 then
    return ("Process %d: no thread ran at any of the samples in %s."):format(artifact.process_id, numbers.span(artifact.duration_ms))
  end
  local seconds = artifact.duration_ms / 1000
  local cores = (info.thread_ns or 0) / 1e9 / math.max(seconds, 0.001)
  local leader = rows[1] and (" Most of its own: %s (%.1f %%)."):format(event_names.spoken(rows[1].method),
    100 * leaders.busy(rows[1]) / info.samples) or ""
  local few = info.samples < FEW_MS and " So few say little: take a longer window." or ""
  local kernel = 100 * artifact.sampling.in_kernel / info.samples
  return ("Process %d: %d on-CPU samples of %d threads in %s, which is %.2f cores' worth of running; %.0f %% in the kernel.%s%s")
    :format(artifact.process_id, info.samples, info.threads, numbers.span(artifact.duration_ms), cores, kernel, leader, few)
end

local function sentence(artifact, source)
  if artifact.sampling then return sentence_os(artifact) end
  local what = source.path and "The recording" or ("Process %d"):format(artifact.process_id)
  local info, rows, by_reason = artifact.info, leaders.of(artifact, 1)
  if info.samples == 0 then return ("%s: no stack was sampled in %s."):format(what, numbers.span(artifact.duration_ms)) end
  local waiting = info.waiting > 0 and (" %.0f %% of them at a known wait (most: %s)."):format(100 * info.waiting / info.samples,
    by_reason[1] and by_reason[1].reason or "?") or " None of them at a known wait."
  local unnamed = 2 * info.unresolved > info.samples
  if unnamed then
    waiting = (" %d of them have no name at their leaf: whether they wait is not known."):format(info.unresolved)
  end
  local leader = rows[1] and not unnamed and (" Beside waits most often seen: %s (%.1f %%)."):format(event_names.spoken(rows[1].method),
    100 * leaders.busy(rows[1]) / info.samples) or ""
  local s = { info.samples == 1 and "" or "s", info.threads == 1 and "" or "s" }
  return ("%s: %d stack sample%s of %d thread%s in %s; they tell where threads stand, not whether they ran.%s%s%s"):format(what,
    info.samples, s[1], info.threads, s[2], numbers.span(artifact.duration_ms), waiting, leader,
    info.samples < FEW_MS and " So few say little: take a longer window." or "")
end

-- A process without a diagnostics socket can be sampled by the kernel all the same: most programs of NativeAOT, DOTNET_EnableDiagnostics=0.
local function unreachable(ctx, args, err)
  if err.kind ~= "EndpointUnavailable" or args.cpuBackend == "EventPipe" then return nil, err end
  local target = process.without_socket(ctx, args.processId)
  if not target or not backend.is_os(target, args.cpuBackend) then return nil, err end
  return { process = target }
end

local function source(ctx, args)
  args.asked_ns, args.topN = loop.now_ns(), args.topN or TOP
  args.maxResolvedSources = args.maxResolvedSources or args.topN
  local found, err = collector.source(ctx, args)
  if not found then found, err = unreachable(ctx, args, err) end
  if not found then return nil, err end
  err = found.process and backend.unfit(found.process, args.cpuBackend)
  if err then return nil, err end
  return found
end

local branch <const> = collector.branch {
  tool = "collect_sample", kind = "cpu", handle = "cpu-sample", data_field = "cpu", payload = "CpuSample",
  description = "Stack samples: where managed threads stand (EventPipe), or where all threads run (Os; NativeAOT by default).",
  risk = function(_, args)
    return (args.cpuBackend == "Os" or args.resolveMethodInstantiations) and backend.HIGH or backend.MODERATE
  end,
  max_risk = backend.HIGH, check = backend.check, source = source, collect = collect, inline = inline, summary = sentence,
  unavailable = function(ctx, args) return symbol_path.refused(ctx, args) or backend.missing(args) end,
}

-- What a watch of counters may take when its threshold is crossed.
captures.announce("cpu-sample", {
  view = "call-tree",
  capture = function(ctx, target)
    local tool = require("tools.collect_sample") -- late: it requires this file
    local call, err = tool:prepare(ctx, { kind = "cpu", processId = target.pid }, { authorised = true })
    if not call then return nil, err end
    local data, extras = tool:perform(ctx, call)
    if data == nil then return nil, extras end
    return { handle = extras.handle }
  end,
})

return branch
