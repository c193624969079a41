-- SPDX-License-Identifier: MIT
-- capabilities: what can be collected from this process on this host. A short sampling session tells CoreCLR from NativeAOT.
local events = require("lunette.events")
local hints = require("lunette.hints")
local loop = require("lunette.loop")
local proc = require("lunette.proc")
local process = require("lunette.process")
local readiness = require("lunette.readiness")

local M = {}

M.PROBE_MS = 2000 -- how long we wait for the first sample
M.STOP_MS = 250   -- and for the session to end
local SAMPLER <const> = "Microsoft-DotNETCore-SampleProfiler"
local FLAVOURS <const> = { CoreClr = "CoreClr", NativeAot = "NativeAot" }
local BY_SESSION <const> = "canReadEventCounters, canSampleCpu, canCollectGcDump, canCollectExceptions, canCollectHttpActivity, "
  .. "canCollectCustomEventSource"
local ORDER <const> = { __order = {
  "processId", "runtime", "runtimeVersion", "canReadEventCounters", "canSampleCpu", "canCollectGcDump", "canCollectExceptions",
  "canCollectHttpActivity", "canCollectCustomEventSource", "canCollectProcessDump", "canSampleOsCpu", "osCpuSource", "canSampleOffCpu",
  "canSampleNativeAlloc", "canSampleNativeLockContention", "canSampleCpuEfficiency", "cpuEfficiencySource", "canAttachClrMD",
  "attachClrMdReason", "canCollectThreadSnapshot", "threadSnapshotSource", "threadSnapshotPreconditions", "notes" } }

-- ---- the probe ----------------------------------------------------------------------------------------------------------------

-- Waits for the first sample; true, false when none came in time, or nil, err.
local function saw_sample(source, deadline_ms)
  while true do
    local left = deadline_ms - loop.now_ms()
    if left <= 0 then return false end
    local batch, err = source:next(left)
    if batch and #batch > 0 then return true end
    if not batch and err.kind == "NotFound" then return false end
    if not batch and err.kind ~= "Timeout" then return nil, err end
  end
end

--- Opens a session of the runtime's sampler and ends it at the first sample.
---@param pid integer
---@return { started: boolean, sampled: boolean?, why: string? }?, table? err   err only when cancelled
local function probe(pid)
  local source <close>, err = events.open {
    pid = pid, providers = { { name = SAMPLER, keywords = 0, level = 5 } }, buffer_mb = 4, rundown = 0, stacks = false,
    want = { { provider = SAMPLER } }, queue = 64,
  }
  if not source then
    if err.kind == "Cancelled" then return nil, err end
    return { started = false, why = tostring(err.message or err) }
  end
  local sampled
  sampled, err = saw_sample(source, loop.now_ms() + M.PROBE_MS)
  if sampled == nil and err.kind == "Cancelled" then return nil, err end
  source:stop(M.STOP_MS)
  return { started = true, sampled = sampled or false, why = err and tostring(err.message or err) }
end

-- What the process has loaded, as the contract names it; Mono is none of its names. nil: it could not be seen.
local function loaded_of(target)
  local loaded = target.endpoint and target.endpoint.runtime
  return loaded and (FLAVOURS[loaded] or "Unknown")
end

--- Which runtime it is. What the process has loaded is certain, where it could be seen: NativeAOT of .NET 10 and later gives samples too,
--- and a CoreCLR without a managed thread gives none. Else samples tell.
---@param result { started: boolean, sampled: boolean? }
---@param loaded? "CoreClr"|"NativeAot"|"Unknown"   nil: it could not be seen
function M.classify(result, loaded)
  if loaded then return loaded end
  if not result.started then return "Unknown" end
  return result.sampled and "CoreClr" or "NativeAot"
end

local function run_probe(target)
  local result = process.recall(target, "probe")
  if result then return result end
  local err
  result, err = probe(target.pid)
  if not result then return nil, err end
  result.runtime = M.classify(result, loaded_of(target))
  if result.started then
    process.remember(target, "probe", result)
    process.remember(target, "runtime", result.runtime)
  end
  return result
end

local function probe_note(result, loaded)
  if not result.started then return ("%s: the EventPipe probe session did not start: %s."):format(BY_SESSION, result.why) end
  local seen = result.sampled and "the sampling probe saw samples" or ("no sample came within %.0f s"):format(M.PROBE_MS / 1000)
  if result.runtime == "CoreClr" then
    return ("CoreCLR: %s%s."):format(seen, result.sampled and "" or " (is it suspended, or without managed threads?)")
  end
  if result.runtime == "Unknown" then return ("canSampleCpu: neither CoreCLR nor NativeAOT (Mono); %s."):format(seen) end
  return ("NativeAOT: %s%s. canSampleCpu: its samples hold addresses of native code only; canSampleOsCpu tells whether the kernel can "
    .. "sample it."):format(loaded and "by its program file; " or "", seen)
end

-- ---- the matrix ---------------------------------------------------------------------------------------------------------------

-- Tells why a flag is false, or true with limits. Flags that the same fix helps stand together, the fix behind them.
local function because(notes, flag, finding)
  if finding.ok and not finding.limited then return true end
  local fix, said = finding.fix, ("%s: %s"):format(flag, finding.reason)
  local at = fix and notes.fixes[fix]
  if at then
    notes[at].said[#notes[at].said + 1] = said
  else
    notes[#notes + 1] = { said = { said }, fix = fix }
    if fix then notes.fixes[fix] = #notes end
  end
  return finding.ok
end

local function note_text(notes)
  local parts = {}
  for i, note in ipairs(notes) do
    parts[i] = type(note) == "string" and note
      or table.concat(note.said, "; ") .. "." .. (note.fix and (" Fix: `%s`."):format(note.fix) or "")
  end
  return table.concat(parts, " ")
end

local function runtime_flags(c, result, notes)
  local coreclr, started = result.runtime == "CoreClr", result.started
  c.canReadEventCounters, c.canCollectExceptions, c.canCollectHttpActivity = started, started, started
  c.canCollectCustomEventSource, c.canCollectProcessDump = started, result.runtime ~= "Unknown"
  c.canSampleCpu, c.canCollectGcDump = started and coreclr, started and coreclr
  if started and not coreclr then notes[#notes + 1] = "canCollectGcDump: only CoreCLR gives a heap dump over the diagnostics socket." end
  if not c.canCollectProcessDump then
    notes[#notes + 1] = "canCollectProcessDump: the runtime is not known."
    return
  end
  local able, why = require("dumps.able").able(c.processId, result.runtime)
  c.canCollectProcessDump = able
  if why then notes[#notes + 1] = ("canCollectProcessDump: %s."):format(why) end
end

local function kernel_flags(c, facts, notes)
  c.canSampleOsCpu = because(notes, "canSampleOsCpu", readiness.os_cpu(facts))
  c.osCpuSource = c.canSampleOsCpu and "linux-perf" or nil
  c.canSampleOffCpu = because(notes, "canSampleOffCpu", readiness.off_cpu(facts))
  c.canSampleNativeAlloc = because(notes, "canSampleNativeAlloc", readiness.native_alloc(facts))
  c.canSampleNativeLockContention = because(notes, "canSampleNativeLockContention", readiness.native_lock(facts))
  c.canSampleCpuEfficiency = because(notes, "canSampleCpuEfficiency", readiness.cpu_efficiency(facts))
  c.cpuEfficiencySource = c.canSampleCpuEfficiency and "linux-perf-stat" or nil
  c.etwKernelOk, c.canReadHandleCount = false, false
  notes[#notes + 1] = "canReadHandleCount: on Windows only."
end

local function host_flags(c, facts)
  local capabilities = facts.host.capabilities or {}
  c.perfInstalled = facts.perf.ok
  c.hasCapPerfmon = capabilities.perfmon or capabilities.sys_admin or false
  c.perfEventParanoid = facts.host.perf_event_paranoid
  c.hasCapSysPtrace = capabilities.sys_ptrace or false
  c.ptraceScope = facts.host.ptrace_scope
end

local function attach_flags(c, facts, notes)
  local attach = readiness.attach(facts, c.processId)
  c.canAttachClrMD, c.attachClrMdReason = attach.ok, attach.reason
  because(notes, "canAttachClrMD, canCollectThreadSnapshot", attach)
  local managed = c.runtime == "CoreClr"
  c.canCollectThreadSnapshot = attach.ok
  c.threadSnapshotSource = attach.ok and (managed and "clrmd-thread-walk" or "linux-native-stack") or nil
  c.threadSnapshotPreconditions = not attach.ok and attach.fix or nil
end

local function kernel_files(c, notes)
  local group, err = proc.cgroup(c.processId)
  if group then
    c.inContainer, c.cgroupV2 = group.in_container, group.version == "V2"
    c.canSeeThrottle = group.cpu ~= nil and group.cpu.quota_usec ~= nil
    c.psiAvailable = group.psi
  else
    c.inContainer, c.cgroupV2, c.canSeeThrottle, c.psiAvailable = false, false, false, false
    notes[#notes + 1] = "cgroup: " .. tostring(err) .. "."
  end
  if group and not c.canSeeThrottle then notes[#notes + 1] = "canSeeThrottle: no CPU quota is set." end
  if not c.psiAvailable then notes[#notes + 1] = "psiAvailable: the kernel shows no pressure files." end
  local fds, why = proc.fds(c.processId)
  c.canReadProcFs = fds ~= nil
  if not fds then notes[#notes + 1] = ("canReadProcFs: %s."):format(tostring(why.message or why)) end
end

--- inspect_process(view="capabilities").
function M.run(ctx, args)
  local target, err = process.resolve(ctx, args.processId)
  if not target then return nil, err end
  local result
  result, err = run_probe(target)
  if not result then return nil, err end
  local notes = { probe_note(result, loaded_of(target)), fixes = {} }
  local c = setmetatable({ processId = target.pid, runtime = result.runtime, runtimeVersion = target.record.runtimeVersion }, ORDER)
  local facts = readiness.facts(target.pid)
  runtime_flags(c, result, notes)
  host_flags(c, facts)
  kernel_flags(c, facts, notes)
  attach_flags(c, facts, notes)
  kernel_files(c, notes)
  c.notes = note_text(notes)
  return c, {
    summary = ("Process %d: %s %s; counters %s, CPU samples %s, OS CPU samples %s, off-CPU %s, attach %s."):format(target.pid, c.runtime,
      c.runtimeVersion, c.canReadEventCounters and "yes" or "no", c.canSampleCpu and "yes" or "no", c.canSampleOsCpu and "yes" or "no",
      c.canSampleOffCpu and "yes" or "no", c.canAttachClrMD and "yes" or "no"),
    hints = { hints.new("collect_events", "Read its counters.", { kind = "counters", durationSeconds = 5, processId = target.pid }) },
    process = target,
  }
end

return M
