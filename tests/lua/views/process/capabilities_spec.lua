-- SPDX-License-Identifier: MIT
-- inspect_process(view="capabilities").
local fake = require("support.fake_machine")

local SAMPLE <const> = { {
  provider = "Microsoft-DotNETCore-SampleProfiler", name = "Thread/Sample", id = 0, time_ns = 1, thread = 1, fields = {},
} }
local machine

local function fault(errno, message) return { ok = false, errno = errno, message = message } end

local function capabilities(p, given, perf)
  given = given or {}
  given.processes = { p }
  machine = fake.new(given)
  if perf ~= false then machine:with_perf() end
  local view = machine:load("views.process.capabilities")
  view.PROBE_MS = 60
  local c, extras = view.run(fake.ctx(), { processId = p.pid })
  return c, extras, view
end

describe("views.process.capabilities", function()
  after_each(function() machine:close() end)

  it("capabilities names runtime CoreClr for a CoreCLR target and its runtime version", function()
    local c, extras = capabilities(fake.process { pid = 42, events = { SAMPLE } })
    assert.same({ "CoreClr", "10.0.1", true, true, true, true }, {
      c.runtime, c.runtimeVersion, c.canSampleCpu, c.canReadEventCounters, c.canCollectGcDump, c.canCollectProcessDump })
    assert.matches("^CoreCLR: the sampling probe saw samples", c.notes)
    assert.equal("CoreClr", extras.process.digest.runtime)
    local session = machine.sessions[1]
    assert.equal("Microsoft-DotNETCore-SampleProfiler", session.providers[1].name)
    assert.equal(0, session.rundown)
    assert.equal(0, machine.open_sessions)
  end)

  it("capabilities of a NativeAOT target: runtime NativeAot and canSampleCpu false", function()
    -- .NET 10's NativeAOT gives samples as well: what the program file says counts.
    for _, events in ipairs { {}, { SAMPLE } } do
      local c, extras = capabilities(fake.process { pid = 42, runtime = "NativeAot", events = events })
      assert.same({ "NativeAot", false, false, true }, { c.runtime, c.canSampleCpu, c.canCollectGcDump, c.canReadEventCounters })
      assert.is_false(extras.process.digest.canSampleCpu)
      assert.matches("NativeAOT: by its program file", c.notes)
      machine:close()
    end
  end)

  it("tells the runtime by its samples where the process's files cannot be seen", function()
    local c = capabilities(fake.process { pid = 42, runtime = "unseen", events = { SAMPLE } })
    assert.equal("CoreClr", c.runtime)
    machine:close()
    c = capabilities(fake.process { pid = 42, runtime = "unseen" })
    assert.equal("NativeAot", c.runtime)
    machine:close()
    c = capabilities(fake.process { pid = 42, runtime = "Mono", events = { SAMPLE } })
    assert.same({ "Unknown", false, false }, { c.runtime, c.canSampleCpu, c.canCollectProcessDump })
  end)

  it("NativeAOT writes a dump only when it was started so that it may", function()
    local c = capabilities(fake.process { pid = 42, runtime = "NativeAot" })
    assert.is_false(c.canCollectProcessDump)
    assert.matches("canCollectProcessDump: NativeAOT writes full dumps only.-gcore %-o NAME 42", c.notes)
    machine:close()
    c = capabilities(fake.process { pid = 42, runtime = "NativeAot", environ = { "DOTNET_DbgEnableMiniDump=1" } })
    assert.is_true(c.canCollectProcessDump)
  end)

  it("says so when the probe's session does not start", function()
    local c = capabilities(fake.process { pid = 42, no_session = "all session slots are in use" })
    assert.same({ false, false, "CoreClr" }, { c.canReadEventCounters, c.canSampleCpu, c.runtime })
    assert.matches("did not start: all session slots are in use", c.notes)
  end)

  it("Two calls on one pid within 60 s run the probe once", function()
    local p = fake.process { pid = 42, events = { SAMPLE } }
    local first, _, view = capabilities(p)
    local second = view.run(fake.ctx(), { processId = 42 })
    assert.equal(1, #machine.sessions)
    assert.same({ first.runtime, first.notes }, { second.runtime, second.notes })
    p.start_time = 777 -- another process under the same pid
    view.run(fake.ctx(), { processId = 42 })
    assert.equal(2, #machine.sessions)
  end)

  it("a probe that could not start is tried again by the next call", function()
    local p = fake.process { pid = 42, no_session = "busy" }
    local _, _, view = capabilities(p)
    p.no_session, p.events = nil, { SAMPLE }
    local c = view.run(fake.ctx(), { processId = 42 })
    assert.is_true(c.canReadEventCounters)
  end)

  it("canSampleOsCpu, -NativeAlloc, -NativeLockContention and -CpuEfficiency are set apart from canSampleCpu", function()
    local c = capabilities(fake.process { pid = 42, runtime = "NativeAot" })
    assert.same({ false, true, "linux-perf", true, true, true, "linux-perf-stat" }, {
      c.canSampleCpu, c.canSampleOsCpu, c.osCpuSource, c.canSampleNativeAlloc, c.canSampleNativeLockContention,
      c.canSampleCpuEfficiency, c.cpuEfficiencySource,
    })
    machine:close()
    local no <const> = fault(13, "Permission denied")
    c = capabilities(fake.process { pid = 42, events = { SAMPLE } },
      { perf_probe = { cpu_clock = no, kernel_clock = no, hardware = no, uprobe = no, sched_switch = no } })
    assert.same({ true, false, false, false, false }, {
      c.canSampleCpu, c.canSampleOsCpu, c.canSampleNativeAlloc, c.canSampleNativeLockContention, c.canSampleCpuEfficiency,
    })
    assert.is_nil(c.osCpuSource)
    assert.is_nil(c.cpuEfficiencySource)
  end)

  it("capabilities: canSeeThrottle is true exactly when a CPU quota is set", function()
    local function throttle(cpu)
      local group = { version = "V2", in_container = true, path = "/x", notes = {}, psi = true, cpu = cpu }
      local c = capabilities(fake.process { pid = 42, events = { SAMPLE }, cgroup = group })
      machine:close()
      return c.canSeeThrottle
    end
    assert.is_true(throttle { usage_usec = 1, quota_usec = 50000, period_usec = 100000 })
    assert.is_false(throttle { usage_usec = 1 })
    assert.is_false(throttle(nil))
  end)

  it("capabilities: a false canSampleOffCpu comes with the concrete reason in notes", function()
    local ok = { ok = true }
    local c = capabilities(fake.process { pid = 42, events = { SAMPLE } },
      { perf_probe = { cpu_clock = ok, hardware = ok, uprobe = ok, sched_switch = fault(13, "Permission denied") } })
    assert.is_false(c.canSampleOffCpu)
    assert.matches('canSampleOffCpu: watching sched:sched_switch: the kernel said "Permission denied"', c.notes)
    assert.matches("Fix: `docker run %-%-cap%-add PERFMON", c.notes)
  end)

  it("gives a reason in notes for every can-flag that is false", function()
    local p = fake.process { pid = 42, runtime = "Mono", no_session = "no", no_attach = true, fds = false }
    local h = fake.open_host()
    h.capabilities, h.ptrace_scope = {}, 1
    local no <const> = fault(13, "Permission denied")
    local c = capabilities(p, { host = h, perf_probe = { cpu_clock = no, hardware = no, uprobe = no, sched_switch = no } }, false)
    local n = 0
    for name, value in pairs(c) do
      if name:find("^can") and value == false then
        n = n + 1
        assert.is_truthy(c.notes:find(name, 1, true), name)
      end
    end
    assert.equal(17, n)
  end)

  it("says a fix that helps several flags once", function()
    local no <const> = fault(13, "Permission denied")
    local c = capabilities(fake.process { pid = 42, events = { SAMPLE } },
      { perf_probe = { cpu_clock = no, hardware = no, uprobe = no, sched_switch = no } })
    local _, n = c.notes:gsub("perf_event_paranoid=%-1", "")
    assert.equal(1, n)
    assert.matches("canSampleOffCpu: [^;]*; canSampleNativeAlloc: ", c.notes)
  end)

  it("needs no perf program, and says when the kernel's part cannot be sampled", function()
    local ok, no = { ok = true }, fault(13, "Permission denied")
    local c = capabilities(fake.process { pid = 42, events = { SAMPLE } },
      { perf_probe = { cpu_clock = ok, kernel_clock = no, hardware = ok, uprobe = ok, sched_switch = ok } }, false)
    assert.same({ true, true, true, false }, { c.canSampleOsCpu, c.canSampleOffCpu, c.canSampleNativeAlloc, c.perfInstalled })
    assert.matches("canSampleOsCpu: user space only", c.notes, 1, true)
  end)

  it("says what stands in where the tracing files are not writable and the threads are many", function()
    local ok, no = { ok = true }, fault(13, "Permission denied")
    for _, row in ipairs { { ok, "hardware breakpoints stand in, of which a processor has four" }, { no, "the call is refused" } } do
      local h = fake.open_host()
      h.uprobe_events_writable = false
      local c = capabilities(fake.process { pid = 42, events = { SAMPLE } }, { host = h,
        perf_probe = { cpu_clock = ok, kernel_clock = ok, hardware = ok, uprobe = ok, sched_switch = ok, breakpoint = row[1] } }, false)
      assert.same({ true, true }, { c.canSampleNativeAlloc, c.canSampleNativeLockContention })
      for _, flag in ipairs { "canSampleNativeAlloc: probing malloc", "canSampleNativeLockContention: probing pthread_mutex_lock" } do
        assert.matches(flag .. ": uprobe_events is not writable here, so threads that start within a window are not watched, and where "
          .. "functions, threads and processors multiply to more than 128, " .. row[2], c.notes, 1, true)
      end
      machine:close()
    end
  end)

  it("capabilities: ptraceScope, hasCapSysPtrace, perfInstalled, perfEventParanoid agree with the host", function()
    local h = fake.open_host()
    h.ptrace_scope, h.perf_event_paranoid, h.capabilities = 1, 4, { sys_ptrace = false, perfmon = false, sys_admin = false }
    local c = capabilities(fake.process { pid = 42, events = { SAMPLE }, no_attach = true }, { host = h })
    assert.same({ 1, false, true, 4, false, false, false }, {
      c.ptraceScope, c.hasCapSysPtrace, c.perfInstalled, c.perfEventParanoid, c.hasCapPerfmon, c.canAttachClrMD,
      c.canCollectThreadSnapshot,
    })
    assert.matches("ptrace_scope=1", c.attachClrMdReason)
    assert.matches("SYS_PTRACE", c.threadSnapshotPreconditions)
    machine:close()
    c = capabilities(fake.process { pid = 42, events = { SAMPLE } }, {}, false)
    assert.is_nil(c.ptraceScope) -- no Yama
    assert.same({ true, false, true, "clrmd-thread-walk" },
      { c.hasCapSysPtrace, c.perfInstalled, c.canAttachClrMD, c.threadSnapshotSource })
  end)
end)
