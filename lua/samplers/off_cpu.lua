-- SPDX-License-Identifier: MIT
-- off_cpu: where threads waited, for how long, in which state and system call, and who woke them: from the scheduler's own switches.
local lazy = require("lunette.lazy")
local beside = lazy("samplers.beside")
local collector = require("lunette.collector")
local contention = lazy("samplers.native_contention")
local event_names = require("collectors.event_names")
local json = require("lunette.json")
local kernel_error = lazy("samplers.kernel_error")
local loop = require("lunette.loop")
local measured = lazy("collectors.measured")
local numbers = require("lunette.numbers")
local offcpu = lazy("lunette.offcpu")
local proc = require("lunette.proc")
local progress = require("lunette.progress")
local stopped = lazy("samplers.stopped")
local symbol_path = lazy("samplers.symbol_path")
local symbols = lazy("lunette.symbols")
local wire = lazy("samplers.offcpu_wire")

local SUMMARY_ROWS <const>, TOP <const> = 3, 25
local MAX_MODULES <const> = 512
local UNWOKEN <const> = 0.01 -- of the waits, from which on it is said
local IDENTITY_ROWS <const> = 100 -- stacks whose managed frames name their modules' versions

local ORDER <const> = { __order = {
  "processId", "startedAt", "duration", "totalOffCpuMicros", "distinctThreads", "schedSwitches", "symbolSource", "censoredSpans",
  "censoredOffCpuMicros", "preemptedMicros", "runDelayMicros", "topBlockingStacks", "nativeContentionEvidence", "notes", "cost",
} }

-- Version ids of the modules of managed frames, by path.
local function modules_of(result, pid)
  local modules, requests = {}, {}
  for _, row in ipairs(result:stacks(1, IDENTITY_ROWS)) do
    for _, f in ipairs(row.frames) do
      local path = f.kind == "managed" and f.module_path or ""
      if path:sub(1, 1) == "/" and not modules[path] and #requests < MAX_MODULES then
        modules[path] = { name = f.module, path = path }
        requests[#requests + 1] = { path = ("/proc/%d/root%s"):format(pid, path), inside = path }
      end
    end
  end
  for i, found in ipairs(#requests > 0 and symbols.modules(requests) or {}) do modules[requests[i].inside].mvid = found.mvid end
  return modules
end

local function loss_notes(info, notes)
  if info.lost > 0 then
    notes[#notes + 1] = ("RecordsLost: the kernel could not deliver %d records: times and counts are too low, and spans may be paired "
      .. "wrongly."):format(info.lost)
  end
  local dropped = info.places_dropped + info.stacks_dropped + info.threads_dropped
  if dropped > 0 then notes[#notes + 1] = ("NoRoom: %d switches found no room for their place or stack."):format(dropped) end
  if info.calls_dropped > 0 then
    notes[#notes + 1] = ("SyscallRowsDropped: a stack shows 8 system calls at most; %d rows with less time were left out."):format(
      info.calls_dropped)
  end
  if info.threads_missing > 0 then
    notes[#notes + 1] = ("ThreadsMissing: %d threads are not watched: there were not enough descriptors (ulimit -n)."):format(
      info.threads_missing)
  end
end

local function name_notes(info, notes, why, told)
  if info.stacks_cut > 0 then
    notes[#notes + 1] = ("StacksCut: %d of %d stacks are deeper than the 8 KB that a sample brings; what is nearest to the root is "
      .. "missing."):format(info.stacks_cut, info.walked)
  end
  if info.stacks_lost > 0 then
    notes[#notes + 1] = ("StacksIncomplete: %d of %d stacks end where nothing tells how to go on."):format(info.stacks_lost, info.walked)
  end
  if not info.kernel_names then
    notes[#notes + 1] = "NoKernelNames: stacks end where the program calls the kernel, since /proc/kallsyms hides its names (CAP_SYSLOG, "
      .. "kernel.kptr_restrict); " .. (info.syscalls_traced and "system calls were traced instead (raw_syscalls:sys_enter)."
      or "system calls have no names, since this kernel does not trace them (raw_syscalls:sys_enter).")
  end
  notes[#notes + 1] = beside.note(why, told)
  if info.unnamed > 0 and not why then
    notes[#notes + 1] = ("RawFrames: %d addresses lie in code without a file and without a name."):format(info.unnamed)
  end
end

local function window_notes(info, notes)
  if info.preempted > 0 then
    notes[#notes + 1] = ("Preempted: %d of %d switches took the processor from threads that would have gone on (%.1f ms in all): that "
      .. "is no blocking and not in the totals."):format(info.preempted, info.switches, info.preempted_micros / 1000)
  end
  if not info.wakers_of_others then
    notes[#notes + 1] = "WakersOfOthers: the kernel did not take all threads into its filter, so of some only wake-ups by threads of this "
      .. "process are told."
  end
  if info.unwoken > UNWOKEN * info.spans then
    notes[#notes + 1] = ("WakersUnseen: of %d of %d waits the kernel did not tell who ended them, as some kernels fail to for timers on an "
      .. "idle processor; they have no waker, and no delay until they ran."):format(info.unwoken, info.spans)
  end
  if info.before > 0 then
    notes[#notes + 1] = ("OpenAtStart: %d waits had begun before the window and ended within it; their time counts from its start, and is "
      .. "among the censored."):format(info.before)
  end
  if info.standing > 0 then
    notes[#notes + 1] = ("Standing: %d threads waited for the whole window, without a switch; their stacks were read while they did, and "
      .. "their time is among the censored."):format(info.standing)
  end
  if info.target_ended then notes[#notes + 1] = "EndedEarly: the process ended within the window." end
  if info.switches == 0 then
    notes[#notes + 1] = "NoSwitches: no thread left the processor: all waited, or ran, for the whole window."
  end
end

local function notes_of(info, why, told, notes)
  loss_notes(info, notes)
  name_notes(info, notes, why, told)
  window_notes(info, notes)
  return notes
end

local function record(ctx, source, args)
  local target = source.process
  local methods <close>, no_methods, told = beside.before(source)
  if not methods then return nil, no_methods end
  local capture <close>, err = offcpu.open(target.pid, { builder = methods })
  if not capture then return nil, kernel_error.of(err, target.pid, "off_cpu") end
  local started_unix_ms, own_ns, program = loop.unix_ms(), proc.own_cpu().process_ns, stopped.program(target.pid)
  do
    local _ <close> = progress.start(ctx, { seconds = args.durationSeconds, message = "Watching the scheduler" })
    local ok
    ok, err = capture:run(args.durationSeconds * 1000)
    if not ok then return nil, err end
  end
  local window_cpu_ns, standing = proc.own_cpu().process_ns - own_ns, {}
  stopped.note(target.pid, standing, program)
  local why = beside.after(source, methods, told and capture:unnamed(methods) == 0)
  local result
  result, err = capture:finish((told or not why) and methods or nil) -- else by perf-PID.map
  if not result then return nil, err end
  return { result = result, why = why, told = told, started_unix_ms = started_unix_ms, cpu_ms = window_cpu_ns / 1e6,
    notes = standing }
end

local function collect(ctx, source, args)
  loop.set_budget(-1)
  local target = source.process
  local done, err = record(ctx, source, args)
  if not done then return nil, err end
  local info = done.result:info()
  return {
    result = done.result, info = info, modules = modules_of(done.result, target.pid), process_id = target.pid,
    started_unix_ms = done.started_unix_ms, duration_ms = info.elapsed_ms, notes = notes_of(info, done.why, done.told, done.notes),
    evidence = contention.of_waits(info.sync, info.lost),
    cost = measured.price { lunette_cpu_ms = done.cpu_ms, window_ms = info.elapsed_ms, events = info.records, lost = info.lost,
      events_per_s = info.records * 1000 / math.max(1, info.elapsed_ms) },
    close = function() done.result:close() end,
  }
end

local function rows_inline(args)
  if args.topN_given or args.depth ~= "Summary" then return args.topN end
  return math.min(SUMMARY_ROWS, args.topN)
end

local function inline(artifact, args)
  local info = artifact.info
  return setmetatable({
    processId = artifact.process_id, startedAt = numbers.iso(artifact.started_unix_ms), duration = numbers.timespan(artifact.duration_ms),
    totalOffCpuMicros = info.micros, distinctThreads = info.threads, schedSwitches = info.switches, symbolSource = "perf-sched-dwarf",
    censoredSpans = info.censored, censoredOffCpuMicros = info.censored_micros, preemptedMicros = info.preempted_micros,
    runDelayMicros = info.delay_micros, topBlockingStacks = wire.stacks(artifact, rows_inline(args)),
    nativeContentionEvidence = artifact.evidence, notes = json.array({ table.unpack(artifact.notes) }), cost = artifact.cost,
  }, ORDER)
end

local function place(row)
  local call = row.calls[1] and (" in %s"):format(row.calls[1].name) or ""
  for i = #row.frames, 1, -1 do
    if row.frames[i].kind == "managed" then return ("%s%s, called from %s"):format(row.leaf.method, call,
      event_names.spoken(row.frames[i].method)) end
  end
  return row.leaf.method .. call
end

local function sentence(artifact)
  local info, row = artifact.info, artifact.result:stacks(1, 1)[1]
  local said = ("Process %d: %d threads were off the processor for %.3f s in all within %.1f s (%d switches)."):format(artifact.process_id,
    info.threads, info.micros / 1e6, artifact.duration_ms / 1000, info.switches)
  if not row then return said end
  return ("%s Most: %s (%.0f %%). Native synchronisation: %s."):format(said, place(row), 100 * row.micros / math.max(1, info.micros),
    artifact.evidence.level)
end

return collector.branch {
  tool = "collect_sample", kind = "off_cpu", handle = "off-cpu-snapshot", data_field = "offCpu", payload = "OffCpuSnapshot",
  description = "Where threads wait and for how long, with system calls and who wakes them, by the scheduler's switches.",
  risk = { level = "high", target_impact = "low", data_exposure = "metadata",
    reason = "It records each switch of the process's threads, with the top of their stacks." },
  unavailable = symbol_path.refused,
  check = function(args, call)
    args.topN_given = call and call.explicit and call.explicit.topN or false
    args.topN = args.topN or TOP
    return true
  end,
  source = collector.kernel_source, collect = collect, inline = inline, summary = sentence,
}
