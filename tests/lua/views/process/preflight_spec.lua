-- SPDX-License-Identifier: MIT
-- inspect_process(view="preflight") and lunette.readiness.
local fake = require("support.fake_machine")

local function fault(errno, message) return { ok = false, errno = errno, message = message } end
local machine

local function preflight(given, pid, perf)
  machine = fake.new(given)
  if perf ~= false then machine:with_perf(perf) end
  local report, extras = machine:load("views.process.preflight").run(fake.ctx(), { processId = pid })
  local by_id = {}
  for _, check in ipairs(report.checks) do by_id[check.id] = check end
  return report, by_id, extras
end

local function host(changes)
  local h = fake.open_host()
  for name, value in pairs(changes) do h[name] = value end
  return h
end

local UNPRIVILEGED <const> = { sys_ptrace = false, sys_admin = false, perfmon = false }

describe("views.process.preflight", function()
  after_each(function() machine:close() end)

  it("preflight without a pid has socket-uid NotApplicable; with one it validates the socket owner", function()
    local report, by_id = preflight {}
    assert.is_nil(report.processId)
    assert.equal("NotApplicable", by_id["socket-uid"].status)
    machine:close()
    report, by_id = preflight({ processes = { fake.process { pid = 42, uid = 0 } } }, 42)
    assert.same({ 42, "Ok" }, { report.processId, by_id["socket-uid"].status })
    machine:close()
    report, by_id = preflight({ processes = { fake.process { pid = 42, uid = 7 } }, host = host { uid = 1000 } }, 42)
    assert.same({ "Blocked", "Blocked" }, { by_id["socket-uid"].status, report.overall })
    assert.matches("process 42 belongs to uid 7 and lunette runs as uid 1000", by_id["socket-uid"].reason)
    assert.matches("runAsUser: 7", by_id["socket-uid"].remediation)
  end)

  it("blocks a process whose socket nobody can use, and only degrades one that is no .NET process", function()
    local off = fake.process {
      pid = 42, state = "unreachable", cause = "diagnostics-disabled", message = "switched off", hint = "set it to 1",
    }
    local _, by_id = preflight({ processes = { off } }, 42)
    assert.same({ "Blocked", "switched off", "set it to 1" },
      { by_id["socket-uid"].status, by_id["socket-uid"].reason, by_id["socket-uid"].remediation })
    machine:close()
    local native = fake.process { pid = 42 }
    native.runtime = nil
    _, by_id = preflight({ processes = { native } }, 42)
    assert.equal("Degraded", by_id["socket-uid"].status)
  end)

  it("blocks a process that stands still, which answers nothing, and says how it goes on", function()
    for _, state in ipairs { "T", "t" } do
      local report, by_id = preflight({ processes = { fake.process { pid = 42, run_state = state } } }, 42)
      assert.same({ "Blocked", "Blocked" }, { by_id["socket-uid"].status, report.overall })
      assert.matches("process 42 stands still", by_id["socket-uid"].reason, 1, true)
      assert.matches("^kill %-CONT 42", by_id["socket-uid"].remediation)
      machine:close()
    end
    preflight {}
  end)

  it("has the five checks with the tools that each one blocks", function()
    local _, by_id = preflight {}
    assert.same({ "all tools" }, { table.unpack(by_id["socket-uid"].affectedTools) })
    assert.equal(5, #by_id["clrmd-attach"].affectedTools)
    assert.same({ 'collect_sample(kind="off_cpu")' }, { table.unpack(by_id["offcpu-perf"].affectedTools) })
    assert.same({ 'collect_sample(kind="native-alloc")' }, { table.unpack(by_id["native-alloc"].affectedTools) })
    assert.same({ 'collect_sample(kind="native-lock-contention")' }, { table.unpack(by_id["native-lock-contention"].affectedTools) })
  end)

  it("preflight never fails, also on a pid that does not exist, and opens no EventPipe session", function()
    local report, by_id = preflight({}, 4242)
    assert.equal(4242, report.processId)
    assert.equal("Degraded", by_id["socket-uid"].status)
    assert.matches("there is no process 4242", by_id["socket-uid"].reason)
    assert.equal("Blocked", by_id["clrmd-attach"].status)
    assert.equal(0, #machine.sessions)
  end)

  it("preflight: every check that is not Ok has a fix to paste; one that is Ok has none", function()
    local everything = {
      host = host { uid = 1000, ptrace_scope = 1, capabilities = UNPRIVILEGED, tracefs = false, uprobe_events_writable = false },
      perf_probe = { cpu_clock = fault(13, "Permission denied"), hardware = fault(13, "Permission denied"), sched_switch = fault(2, "none"),
                     uprobe = fault(1, "no") },
      processes = { fake.process { pid = 42, uid = 7, no_attach = true } },
    }
    local report = preflight(everything, 42)
    for _, check in ipairs(report.checks) do
      assert.is_true(check.status == "Blocked" or check.status == "Degraded", check.id)
      assert.is_true(type(check.remediation) == "string" and #check.remediation > 10, check.id)
    end
    machine:close()
    report = preflight {}
    for _, check in ipairs(report.checks) do assert.is_nil(check.remediation, check.id) end
  end)

  it("preflight: overall is the worst applicable status and the most severe check comes first", function()
    local report = preflight {}
    assert.equal("Ok", report.overall)
    machine:close()
    local ok <const>, no <const> = { ok = true }, fault(13, "Permission denied")
    local probes <const> = { cpu_clock = ok, hardware = ok, sched_switch = ok, uprobe = no }
    report = preflight({ perf_probe = probes })
    assert.same({ "Degraded", "Degraded", "native-alloc" }, { report.overall, report.checks[1].status, report.checks[1].id })
    machine:close()
    report = preflight({ perf_probe = probes, host = host { ptrace_scope = 1, capabilities = UNPRIVILEGED } })
    assert.same({ "Blocked", "clrmd-attach", "Blocked" }, { report.overall, report.checks[1].id, report.checks[1].status })
    assert.equal("NotApplicable", report.checks[#report.checks].status)
  end)

  it("preflight: clrmd-attach is Blocked with yama ptrace_scope 1 and no capability", function()
    local cases = {
      { 0, UNPRIVILEGED, "Ok" }, { nil, UNPRIVILEGED, "Ok" }, { 1, UNPRIVILEGED, "Blocked" }, { 2, UNPRIVILEGED, "Blocked" },
      { 1, { sys_ptrace = true }, "Ok" }, { 2, { sys_ptrace = true }, "Ok" }, { 3, { sys_ptrace = true }, "Blocked" },
    }
    for _, case in ipairs(cases) do
      local h = host { capabilities = case[2] }
      h.ptrace_scope = case[1]
      local _, by_id = preflight { host = h }
      assert.equal(case[3], by_id["clrmd-attach"].status, ("scope %s"):format(case[1]))
      machine:close()
    end
    local _, by_id = preflight { host = host { ptrace_scope = 1, capabilities = UNPRIVILEGED } }
    assert.matches("kernel%.yama%.ptrace_scope=1 and CAP_SYS_PTRACE is missing", by_id["clrmd-attach"].reason)
    assert.matches("%-%-cap%-add SYS_PTRACE", by_id["clrmd-attach"].remediation)
    assert.matches("sysctl %-w kernel%.yama%.ptrace_scope=0", by_id["clrmd-attach"].remediation)
  end)

  it("off-CPU names what is missing: the tracing files, the privilege, seccomp", function()
    local function off(given, perf)
      local _, by_id = preflight(given, nil, perf)
      machine:close()
      return by_id["offcpu-perf"].status, by_id["offcpu-perf"].reason, by_id["offcpu-perf"].remediation
    end
    local function probes(fail)
      local ok = { ok = true }
      return { cpu_clock = ok, hardware = ok, uprobe = ok, sched_switch = fail }
    end
    local status, reason, fix, _
    status = off({}, false)
    assert.equal("Ok", status) -- no perf program is needed
    _, reason, fix = off { perf_probe = probes(fault(2, "none")) }
    assert.matches("tracing file system is not mounted", reason)
    assert.matches("mount %-t tracefs", fix)
    _, reason, fix = off {
      perf_probe = probes(fault(13, "Permission denied")), host = host { perf_event_paranoid = 4, capabilities = UNPRIVILEGED },
    }
    assert.matches('"Permission denied" %(kernel%.perf_event_paranoid=4, CAP_PERFMON is missing', reason)
    assert.matches("perf_event_paranoid=%-1", fix)
    _, _, fix = off { perf_probe = probes(fault(1, "Operation not permitted")), host = host { seccomp = 2 } }
    assert.matches("seccomp=unconfined", fix)
    local hidden = host { uid = 1000, capabilities = UNPRIVILEGED, perf_event_paranoid = 2 }
    hidden.tracefs = nil
    _, reason, fix = off { perf_probe = probes(fault(13, "Permission denied")), host = hidden }
    assert.matches("may not be read by uid 1000 %(kernel%.perf_event_paranoid=2, CAP_PERFMON is missing", reason)
    assert.matches("remount,mode=755", fix)
  end)

  it("asks the kernel about the process itself, and about ourselves when it is gone", function()
    preflight({ processes = { fake.process { pid = 42 } } }, 42)
    assert.equal(42, machine.probed)
    machine:close()
    preflight({}, 42)
    assert.not_equal(42, machine.probed)
  end)

  it("native probes are Degraded on a process whose libraries we may not look up, whatever perf_event_open says", function()
    local _, by_id = preflight({ processes = { fake.process { pid = 42, no_link = true } } }, 42)
    for _, id in ipairs { "native-alloc", "native-lock-contention" } do
      assert.equal("Degraded", by_id[id].status)
      assert.matches("where its libraries lie may not be read", by_id[id].reason)
      assert.matches("SYS_PTRACE", by_id[id].remediation)
    end
  end)
end)

describe("lunette.readiness", function()
  after_each(function() machine:close() end)

  it("runs perf once, however often it is asked within a minute", function()
    machine = fake.new()
    local count = os.tmpname()
    machine:with_perf("echo x >> " .. count .. "; echo perf version 6.1\n")
    local readiness = machine:load("lunette.readiness")
    for _ = 1, 3 do assert.is_true(readiness.perf(machine.host).ok) end
    local f = assert(io.open(count))
    assert.equal("x\n", f:read("a"))
    f:close()
    os.remove(count)
  end)

  it("counts without a PMU, with a word on what is missing", function()
    machine = fake.new()
    local readiness = machine:load("lunette.readiness")
    local ok = { ok = true }
    local facts = { host = machine.host, perf = ok, probe = { cpu_clock = ok, hardware = fault(2, "No such file or directory") } }
    local finding = readiness.cpu_efficiency(facts)
    assert.is_true(finding.ok)
    assert.matches("software counters only", finding.reason)
    facts.probe.cpu_clock = fault(13, "Permission denied")
    assert.is_false(readiness.cpu_efficiency(facts).ok)
  end)
end)
