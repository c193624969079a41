-- SPDX-License-Identifier: MIT
-- readiness: which ways of looking into a process work on this host, by asking the kernel, and what to do where one does not.
-- Each finding is { ok, reason, fix? }; a fix can be pasted.
local loop = require("lunette.loop")
local memory = require("lunette.memory")
local proc = require("lunette.proc")
local sys = require("lunette.sys")

local M = {}

M.PERF_TIMEOUT_MS = 2000
M.PERF_CACHE_MS = 60000
local EPERM <const>, ENOENT <const>, EACCES <const>, ENOSYS <const> = 1, 2, 13, 38
local INSTALL_PERF <const> = "apt-get install linux-perf   # Ubuntu: linux-tools-$(uname -r)"
local MOUNT_TRACEFS <const> = "mount -t tracefs nodev /sys/kernel/tracing   # container: -v /sys/kernel/tracing:/sys/kernel/tracing"
local READ_TRACEFS <const> = "sudo mount -o remount,mode=755 /sys/kernel/tracing; docker run --cap-add PERFMON …   # or run as root"
local MOST_UPROBES <const> = 128 -- of perf: UP_PERF_EVENTS_MAX
local SHARED_HOST <const> = "on a machine of your own only, never on a shared one"

local function good(reason) return { ok = true, reason = reason } end
local function bad(reason, fix) return { ok = false, reason = reason, fix = fix } end

local function grant(capability)
  return ("docker run --cap-add %s …   # Kubernetes: securityContext: { capabilities: { add: [\"%s\"] } }"):format(capability, capability)
end

-- ---- the perf program ---------------------------------------------------------------------------------------------------------

local perf_checked -- { path, until_ms, finding }

local function try_perf(path)
  local result, err = loop.exec { argv = { path, "--version" }, timeout_ms = M.PERF_TIMEOUT_MS, max_output = 4096 }
  if not result then return bad(("%s does not run: %s"):format(path, tostring(err)), INSTALL_PERF) end
  local version = result.stdout:match("perf version ([%w%.%-_]+)")
  if result.code ~= 0 or not version then
    return bad(("%s does not work (exit code %s): it is the wrapper of another kernel's package, or broken")
      :format(path, tostring(result.code)), INSTALL_PERF)
  end
  return good(("%s, version %s"):format(path, version))
end

--- Whether a usable perf is on PATH. It is run once a minute at most.
---@param host table   of proc.host
function M.perf(host)
  if not host.perf then return bad("there is no perf program on PATH", INSTALL_PERF) end
  local now = loop.now_ms()
  if not perf_checked or perf_checked.path ~= host.perf or perf_checked.until_ms <= now then
    perf_checked = { path = host.perf, until_ms = now + M.PERF_CACHE_MS, finding = try_perf(host.perf) }
  end
  return perf_checked.finding
end

-- ---- perf_event_open ----------------------------------------------------------------------------------------------------------

local function paranoid(host)
  return host.perf_event_paranoid and ("kernel.perf_event_paranoid=" .. host.perf_event_paranoid) or "no kernel.perf_event_paranoid"
end

local function capabilities_word(host)
  local c = host.capabilities or {}
  local word = (c.perfmon or c.sys_admin) and "CAP_PERFMON is there" or "CAP_PERFMON is missing"
  if host.user_namespace then word = word .. ", and a user namespace keeps capabilities from reaching the machine" end
  return word
end

-- Why perf_event_open said no, in the terms of whoever has to change it.
local function perf_refused(host, probe, what, level)
  if probe.errno == EPERM and (host.seccomp or 0) == 2 and (host.capabilities or {}).perfmon then
    return bad(("%s: the kernel said \"%s\"; a seccomp filter is active and likely blocks perf_event_open"):format(what, probe.message),
      "docker run --security-opt seccomp=unconfined …   # or a profile that allows perf_event_open")
  end
  if probe.errno == EPERM or probe.errno == EACCES then
    return bad(("%s: the kernel said \"%s\" (%s, %s)"):format(what, probe.message, paranoid(host), capabilities_word(host)),
      ("%s   # or, %s: sudo sysctl -w kernel.perf_event_paranoid=%d"):format(grant("PERFMON"), SHARED_HOST, level))
  end
  if probe.errno == ENOSYS then return bad(what .. ": this kernel has no perf_event_open", "use a kernel with CONFIG_PERF_EVENTS") end
  return bad(("%s: the kernel said \"%s\""):format(what, tostring(probe.message)), grant("PERFMON"))
end

--- Sampling of what runs on the CPU, by the kernel's clock on the process. No perf program is needed, here and below.
function M.os_cpu(facts)
  local probe = facts.probe
  if not probe.cpu_clock.ok then return perf_refused(facts.host, probe.cpu_clock, "sampling the CPU", 1) end
  if not probe.kernel_clock or probe.kernel_clock.ok then return good("perf_event_open works on the process") end
  local finding = perf_refused(facts.host, probe.kernel_clock, "user space only: sampling the kernel's part", 1)
  finding.ok, finding.limited = true, true
  return finding
end

--- Where threads wait: the scheduler's tracepoint, for which the whole machine is watched.
function M.off_cpu(facts)
  if facts.probe.sched_switch.ok then return good("the tracepoint sched:sched_switch works") end
  if facts.probe.sched_switch.errno == ENOENT then
    return bad("the tracing file system is not mounted here (no /sys/kernel/tracing/events/sched/sched_switch)", MOUNT_TRACEFS)
  end
  local host = facts.host
  if facts.probe.sched_switch.errno == EACCES and not host.tracefs and (host.perf_event_paranoid or 0) < 3 then
    return bad(("the tracing files below /sys/kernel/tracing may not be read by uid %d (%s, %s)"):format(host.uid, paranoid(host),
      capabilities_word(host)), READ_TRACEFS)
  end
  return perf_refused(host, facts.probe.sched_switch, "watching sched:sched_switch", -1)
end

local function limited(reason, fix)
  local finding = good(reason)
  finding.limited, finding.fix = true, fix
  return finding
end

local function can_break(facts) return facts.probe.breakpoint and facts.probe.breakpoint.ok end

-- Probes on functions of native libraries: by the tracing files, by perf_event_open alone, or by hardware breakpoints.
local function uprobes(facts, what)
  local probe, host = facts.probe.uprobe, facts.host
  if facts.closed then
    return bad(("%s: where its libraries lie may not be read (%s)"):format(what, tostring(facts.closed.message or facts.closed)),
      ("%s   # or run lunette as its user"):format(grant("SYS_PTRACE")))
  end
  if probe.ok then
    if host.uprobe_events_writable ~= false then return good("uprobes work") end
    return limited(("%s: uprobe_events is not writable here, so threads that start within a window are not watched, and where functions, "
      .. "threads and processors multiply to more than %d, %s"):format(what, MOST_UPROBES,
      can_break(facts) and "hardware breakpoints stand in, of which a processor has four" or "the call is refused"), MOUNT_TRACEFS)
  end
  local refused = probe.errno == ENOENT and bad(what .. " needs uprobe events, which this kernel does not have (or /sys is not mounted)",
    "use a kernel with CONFIG_UPROBE_EVENTS") or perf_refused(host, probe, what, -1)
  if can_break(facts) then
    return limited(("hardware breakpoints stand in, of which a processor has four: %s"):format(refused.reason), refused.fix)
  end
  return refused
end

--- Who calls the native allocator, by uprobes on libc.
function M.native_alloc(facts) return uprobes(facts, "probing malloc") end

--- Who takes native mutexes, by uprobes on libc.
function M.native_lock(facts) return uprobes(facts, "probing pthread_mutex_lock") end

--- Counting: a lower bar than sampling the machine. Without a PMU the hardware rates are absent and the rest works.
function M.cpu_efficiency(facts)
  if facts.probe.hardware.ok then return good("hardware counters work on the process") end
  if not facts.probe.cpu_clock.ok then return perf_refused(facts.host, facts.probe.cpu_clock, "counting", 2) end
  local finding = good(("software counters only: hardware counters are not there (\"%s\"), as in most virtual machines")
    :format(tostring(facts.probe.hardware.message)))
  finding.limited = true
  return finding
end

-- ---- ptrace -------------------------------------------------------------------------------------------------------------------

local ATTACH_FIX <const> = "docker run --cap-add SYS_PTRACE …   # Kubernetes: securityContext: { capabilities: { add: [\"SYS_PTRACE\"] } }"

local function scope_word(host)
  if not host.ptrace_scope then return "no Yama" end
  return "kernel.yama.ptrace_scope=" .. host.ptrace_scope
end

-- Without a process to ask about: what the rules say for one of the same user.
local function attach_by_rule(host)
  local scope, capable = host.ptrace_scope or 0, (host.capabilities or {}).sys_ptrace
  if scope >= 3 then
    return bad("kernel.yama.ptrace_scope=3 forbids attaching until the next boot, to everybody",
      ("reboot with kernel.yama.ptrace_scope=1 or less, %s"):format(SHARED_HOST))
  end
  if capable then return good(("CAP_SYS_PTRACE (%s)"):format(scope_word(host))) end
  if scope == 0 then return good(scope_word(host) .. ": processes of the same user may be attached to") end
  return bad(("%s and CAP_SYS_PTRACE is missing: attaching to a process of the same user is blocked"):format(scope_word(host)),
    ("%s   # or, %s: sudo sysctl -w kernel.yama.ptrace_scope=0"):format(ATTACH_FIX, SHARED_HOST))
end

--- Whether what reads a target runs behind a filter of the kernel (docs/threads.md). Where not, it works all the same.
---@param facts table
function M.confined(facts)
  if facts.confines ~= false then return good("a seccomp filter confines what reads processes and dumps") end
  return bad("this kernel takes no seccomp filter from lunette, so what reads processes and dumps runs with all rights of its user",
    "use a kernel with CONFIG_SECCOMP_FILTER, or a container runtime that lets its processes set filters; open no dumps of strangers here")
end

local function attach(facts, pid)
  local host = facts.host
  if not pid then return attach_by_rule(host) end
  local ok, err = proc.can_attach(pid)
  if ok then return good(("the kernel lets us attach to process %d (%s)"):format(pid, scope_word(host))) end
  if err.kind == "ProcessNotFound" then return bad(("there is no process %d"):format(pid), "lunette ps") end
  local rule = attach_by_rule(host)
  if not rule.ok then return rule end
  return bad(("the kernel refuses to let us attach to process %d (%s, our uid is %d): it belongs to another user, is not dumpable, "
    .. "or a security module says no"):format(pid, scope_word(host), host.uid), ATTACH_FIX)
end

--- Whether we may attach (stop it, read its memory). With a pid the kernel itself is asked.
---@param facts table
---@param pid? integer
function M.attach(facts, pid)
  local finding, confined = attach(facts, pid), M.confined(facts)
  if finding.ok and not confined.ok then finding.reason = ("%s; %s"):format(finding.reason, confined.reason) end
  return finding
end

-- ---- all of it ------------------------------------------------------------------------------------------------------------------

-- Why the files of a process may not be opened, for which the kernel asks the question of its maps; nil: they may.
local function closed(pid)
  local _, err = proc.link(pid, "exe")
  return err and err.kind == "PermissionDenied" and err or nil
end

--- What all findings are made from. Asks the kernel; opens nothing in the target.
---@param pid? integer   the process to ask about; nil, or one that is gone: ourselves
---@return table facts   { host, perf, probe, confines, closed? }
function M.facts(pid)
  local host, there = proc.host(), pid and proc.stat(pid)
  return {
    host = host, perf = M.perf(host), probe = proc.perf_probe(there and pid or sys.pid), confines = memory.confines(),
    closed = there and closed(pid) or nil,
  }
end

return M
