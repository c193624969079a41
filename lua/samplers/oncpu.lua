-- SPDX-License-Identifier: MIT
-- Samples of the kernel's CPU clock: threads of the process while they run, with kernel, native and managed frames in one stack. Names of
-- managed code come from a session of the runtime beside the window that brings its methods, and from perf-PID.map.
local errors = require("lunette.errors")
local loop = require("lunette.loop")
local measured = require("collectors.measured")
local oncpu = require("lunette.oncpu")
local proc = require("lunette.proc")
local profile = require("lunette.profile")
local progress = require("lunette.progress")
local capture = require("samplers.capture")
local stopped = require("samplers.stopped")
local window = require("collectors.window")

local M = {}

M.EVIDENCE = { backend = "LinuxPerf", kind = "OsOnCpuSamples" }
local RUNTIME <const> = "Microsoft-Windows-DotNETRuntime"
local FATAL <const> = { Cancelled = true, ProcessExited = true, ProcessNotFound = true }
local NS_PER_MS <const> = 1e6
local NAMED_SHARE <const> = 0.9 -- of the hottest methods, to call a capture by one sort of names
local SORTS <const> = { managed = "Native", dynamic = "Native", native = "Native", kernel = "Native" }

local function since(ns) return (loop.now_ns() - ns) / NS_PER_MS end

-- The providers of the names alone: what samples stacks by itself is left out.
local function name_providers(il)
  local list = {}
  for _, provider in ipairs(profile.providers { kind = "cpu", loads = true, il = il }) do
    if provider.name == RUNTIME then list[#list + 1] = provider end
  end
  return list
end

-- The kernel's events of a process.
local function open(source, builder) return oncpu.open { pid = source.process.pid, builder = builder } end

-- A session that runs in a task of its own until it is stopped, and its end.
local function in_background(session, ms)
  local outcome = {}
  local task = loop.spawn(function()
    outcome.done, outcome.err = session:run(ms)
    outcome.ended_ns = loop.now_ns()
  end)
  return {
    -- Stops it; true, or nil and why it failed. All samples have been added then.
    stop = function()
      session:stop()
      local ok, err = task:await()
      if not ok and err then return nil, err end
      if not outcome.done then return nil, outcome.err end
      return true
    end,
  }
end

-- Names that came before the window miss precompiled methods that were first used in it, and what was lost: those are told now, if they are
-- on a stack. Whether all names were told.
local function complete_names(source, spec, builder, whole, done)
  local unknown, begun, dropped = builder:unnamed()
  if not unknown then return false end
  whole = whole and (done.summary.lost or 0) == 0 and dropped == 0
  if done.ended == "stream-end" or (begun == 0 and (unknown == 0 or whole)) then return whole end
  return capture.take_names(source, spec, builder)
end

-- The window beside a session of the runtime that tells of methods as they are compiled. Those that are there are told before it begins:
-- stacks are taken apart by where their methods begin, and what the telling costs is in no sample.
local function with_names(ctx, source, args, builder, made)
  local running, failed, whole
  local spec = { il = args.resolveSourceLines }
  local run = {
    open = {
      tap = builder, pid = source.process.pid, buffer_mb = capture.BUFFER_MB, rundown = false, providers = name_providers(spec.il),
    },
    on_event = function() end, duration_ms = args.durationSeconds * 1000, message = "Sampling the CPU", process = source.process,
    priced = true, stop_ms = capture.STOP_MS,
    opened = function()
      whole = capture.take_names(source, spec, builder)
      local session, err = open(source, builder)
      made.session = session
      if not session then return nil, err end
      running = in_background(session, args.durationSeconds * 1000 + 60000)
      return true
    end,
    closing = function()
      local _, err = running.stop()
      failed = err
    end,
  }
  local done, err = window.run(ctx, run)
  if not done then
    if running then running.stop() end
    return nil, err
  end
  if failed then return nil, failed end
  local notes, began = {}, loop.now_ns()
  window.notes(done, run, notes)
  made.told = complete_names(source, spec, builder, whole, done)
  local artifact = measured.window({ window = done, notes = notes, cost = done.cost }, source)
  return artifact, { session_start = done.open_ms, window = done.elapsed_ms, drain = done.drain_ms + since(began) }
end

-- The window alone: a program compiled ahead of time has its names in its file.
local function alone(ctx, source, args, builder, made)
  local asked_ns = loop.now_ns()
  local session, err = open(source, builder)
  if not session then return nil, err end
  made.session = session
  local opened_ms = since(asked_ns)
  local _ <close> = progress.start(ctx, { seconds = args.durationSeconds, message = "Sampling the CPU" })
  local started_ms, unix_ms = loop.now_ms(), loop.unix_ms()
  local ok
  ok, err = session:run(args.durationSeconds * 1000)
  if not ok then return nil, err end
  builder:finish()
  local elapsed, notes = loop.now_ms() - started_ms, {}
  if session:stats().target_ended then
    notes[1] = ("ProcessEnded: the process ended %.1f s into a window of %.1f s; what came before is kept."):format(elapsed / 1000,
      args.durationSeconds)
  end
  return {
    process_id = source.process.pid, started_unix_ms = unix_ms, duration_ms = elapsed, notes = notes, recorded = false,
  }, { session_start = opened_ms, window = elapsed, drain = 0 }
end

local function kernel_notes(stats, notes)
  if stats.no_kernel then
    notes[#notes + 1] = "UserOnly: the kernel's part was refused (kernel.perf_event_paranoid is above 1, and CAP_PERFMON is missing): time "
      .. "in system calls is not seen. sudo sysctl kernel.perf_event_paranoid=1, or Docker: --cap-add PERFMON."
  elseif not stats.kernel_names and stats.in_kernel > 0 then
    notes[#notes + 1] = ("KernelNames: the kernel is one frame, (not named), since its names are hidden (%s).")
      :format(stats.kernel_why or "kernel.kptr_restrict; sudo sysctl kernel.kptr_restrict=0")
  end
end

-- What the samples could not tell.
local function sample_notes(stats, notes)
  local n = math.max(1, stats.samples)
  if stats.lost > 0 then
    notes[#notes + 1] = ("SamplesLost: %d records found no room in the kernel's rings; counts are too low."):format(stats.lost)
  end
  if stats.throttled > 0 then
    notes[#notes + 1] = ("Throttled: the kernel held the clock back %d times (kernel.perf_event_max_sample_rate, "
      .. "perf_cpu_time_max_percent)."):format(stats.throttled)
  end
  if stats.threads_missing > 0 then
    notes[#notes + 1] = ("ThreadsMissing: %d threads were not sampled: no descriptors left (ulimit -n)."):format(stats.threads_missing)
  end
  if stats.broken / n > 0.02 then
    notes[#notes + 1] = ("StacksCut: the root of %d of %d stacks was not reached: they begin at the frame that was."):format(stats.broken,
      stats.samples)
  end
  if stats.dropped > 0 then
    notes[#notes + 1] = ("SamplesDropped: the stacks of %d samples found no room; they are in <root> only."):format(stats.dropped)
  end
end

-- The window with names, or without them where the runtime does not give them, which is said. What the kernel refuses is asked first.
local function run(ctx, source, args, builder, made)
  local pid = source.process.pid
  local probe = proc.perf_probe(pid)
  if probe and not probe.cpu_clock.ok or source.process.digest.runtime == "NativeAot" then
    return alone(ctx, source, args, builder, made)
  end
  local artifact, why
  if stopped.is_mute(source.process) then
    why = source.process.why_not or errors.new("EndpointUnavailable", "the process stands still, and so does its runtime")
  else
    artifact, why = with_names(ctx, source, args, builder, made)
  end
  if artifact or made.session or FATAL[why.kind] or why.detail == "perf_event_open" then return artifact, why end
  local fresh, err = profile.new { kind = "cpu" } -- the first is the stream's that did not come
  if not fresh then return nil, err end
  made.builder:close()
  made.builder = fresh
  local phases
  artifact, phases = alone(ctx, source, args, fresh, made)
  if not artifact then return nil, phases end
  local cause = tostring(why.message):gsub("%.+$", "")
  table.insert(artifact.notes, 1, ("ManagedNames: the runtime did not open a session for the names of its methods (%s: %s); frames of "
    .. "managed code have names only where DOTNET_PerfMapEnabled=1 wrote perf-%d.map."):format(why.kind, cause, pid))
  return artifact, phases
end

--- What the names of the hottest methods are worth (SymbolSource).
---@param artifact SampleArtifact
---@return string
function M.symbol_source(artifact)
  local named, n, mangled = 0, 0, 0
  for _, row in ipairs(artifact.hotspots or {}) do
    local kind = artifact.profile:frame(row.frame).kind
    n = n + 1
    if SORTS[kind] and not row.method:find("+0x", 1, true) then named = named + 1 end
    if kind == "native" and row.method:find("^_[ZR]") then mangled = mangled + 1 end
  end
  if n == 0 then return "Unknown" end
  if named == 0 then return "Stripped" end
  if mangled == named then return "ElfMangled" end
  return named / n >= NAMED_SHARE and "ElfDemangled" or "Mixed"
end

-- What a window opens.
local MADE <const> = {
  __close = function(made)
    if made.session then made.session:close() end
    made.builder:close()
  end,
}

--- Runs the window and builds the profile.
---@param ctx table
---@param source CollectorSource
---@param args table
---@return SampleArtifact?, table phases_or_err
function M.run(ctx, source, args)
  local builder, err = profile.new { kind = "cpu" }
  if not builder then return nil, err end
  local made <close> = setmetatable({ builder = builder }, MADE)
  local program = stopped.program(source.process.pid)
  local artifact, phases = run(ctx, source, args, builder, made)
  if not artifact then return nil, phases end
  local began = loop.now_ns()
  local built
  built, err = made.builder:build(made.told)
  if not built then return nil, err end
  local build_ms = since(began)
  artifact.profile, artifact.info, artifact.modules = built, built:info(), built:modules()
  artifact.evidence, artifact.sampling = M.EVIDENCE, made.session:stats()
  artifact.close = function() built:close() end
  stopped.note(source.process.pid, artifact.notes, program)
  sample_notes(artifact.sampling, artifact.notes)
  kernel_notes(artifact.sampling, artifact.notes)
  phases.build = build_ms
  phases.names = math.min(artifact.info.name_ms or 0, build_ms)
  return artifact, phases
end

return M
