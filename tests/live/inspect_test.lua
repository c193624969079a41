-- SPDX-License-Identifier: MIT
-- inspect_process, lunette ps and lunette doctor on real processes: what they say must be what the host's own files say.
local h = require("harness")
local loop, json = h.loop, h.json

local MB <const> = 1024 * 1024
local REMEMBERED_MS <const> = 50000 -- what is known of a process is believed for a minute

local function sh(script, timeout_ms)
  local done = assert(loop.exec { argv = { "sh", "-c", script }, timeout_ms = timeout_ms or 20000, max_output = 1024 * 1024 })
  return (done.stdout:gsub("%s+$", "")), done.code, done.stderr
end

local function number_of(script) return tonumber((sh(script))) end

local function need_target(runtime, skip)
  local ok, why = h.build_target(runtime)
  if not ok then skip(why) end
end

local function need_root(skip)
  if sh("id -u") ~= "0" then skip("only root can become another user or make namespaces and cgroups") end
end

local function inspect(view, arguments)
  local all = { view = view }
  for name, value in pairs(arguments or {}) do all[name] = value end
  return h.call("inspect_process", all)
end

-- `lunette ps --json`, as another user when given one, with more environment.
local function ps(uid)
  local as = uid and ("setpriv --reuid %d --regid %d --clear-groups --inh-caps=-all "):format(uid, uid) or ""
  local out, code, err = sh(as .. h.lunette .. " ps --json")
  h.eq(0, code, "exit code of ps: " .. err)
  return assert(json.decode(out))
end

-- A child that is no .NET process, with the life of a target.
local function sleeper(seconds) return h.start({ "sh", "-c", 'echo READY x; exec sleep "$0"', tostring(seconds) }, "sleeping") end

-- A target whose program is started by another one (unshare, setpriv); found by a word of its own in its command line.
local function wrapped_target(runtime, wrapper)
  local mark = ("--mark-%d-%d"):format(h.sys.pid, h.number())
  local argv = { "setpriv", "--pdeathsig", "KILL" }
  for _, word in ipairs(wrapper) do argv[#argv + 1] = word end
  for _, word in ipairs { h.targets .. "/" .. runtime .. "/lunette-target", "idle", "--detached", mark } do argv[#argv + 1] = word end
  loop.spawn(function() loop.exec { argv = argv, timeout_ms = 600000 } end)
  local function pid() return tonumber((sh(("pgrep -f '^[^ ]*lunette-target idle --detached %s'"):format(mark)))) end
  local found = h.wait_for("the wrapped target", h.START_MS, pid)
  return setmetatable({ pid = found, mark = mark }, { __close = function() sh(("pkill -KILL -f -- '%s'"):format(mark)) end })
end

local function facts_of(runtime)
  return function(skip)
    need_target(runtime, skip)
    local target <close> = h.target(runtime, "idle")
    local pid = target.pid
    local row = h.ok(h.find(ps().processes, { processId = pid }), "the target in ps")
    h.near(number_of(("awk '/^VmRSS/{print $2*1024}' /proc/%d/status"):format(pid)), 8 * MB, row.rssBytes, "RSS of ps")
    h.near(number_of(("ls /proc/%d/task | wc -l"):format(pid)), 2, row.threads, "threads of ps")
    h.eq("lunette-target", row.managedEntrypointAssemblyName, "entry assembly")

    local resources = inspect("resources", { processId = pid }).data.resources
    h.near(number_of(("ls /proc/%d/fd | wc -l"):format(pid)), 3, resources.fdCount, "descriptors")
    h.eq(resources.fdCount, resources.fd.sockets + resources.fd.regular + resources.fd.pipes + resources.fd.eventfds + resources.fd.other,
      "the classes add up")
    h.near(number_of(("ls -l /proc/%d/fd | grep -c 'pipe:\\['"):format(pid)), 2, resources.fd.pipes, "pipes")
    h.near(number_of(("ls -l /proc/%d/fd | grep -c ' -> /'"):format(pid)), 2, resources.fd.regular, "regular")
    h.eq(number_of(("awk '/^Max open files/{print $4}' /proc/%d/limits"):format(pid)), resources.limits.noFileSoft, "soft limit")
    local split = resources.managedVsNative
    h.ok(split.gcHeapBytes > 0 and split.gcHeapBytes < split.rssBytes, "heap below RSS")
    h.near(number_of(("awk '/^VmRSS/{print $2*1024}' /proc/%d/status"):format(pid)), 8 * MB, split.rssBytes, "RSS")

    local trend = inspect("memory_trend", { processId = pid, durationSeconds = 2, sampleEverySeconds = 1 }).data.memoryTrend
    h.eq(3, #trend.samples, "samples of 2 s, one a second")
    h.eq("stable", trend.verdict, "verdict of an idle process")
    h.near(number_of(("awk '/^Pss:/{print $2*1024}' /proc/%d/smaps_rollup"):format(pid)), 8 * MB, trend.samples[3].pssBytes, "PSS")
    h.near(number_of(("cut -d' ' -f10 /proc/%d/stat"):format(pid)), 2000, trend.samples[3].minorFaults, "minor faults")

    local container = inspect("container", { processId = pid, depth = "Detail" }).data.container
    h.eq(number_of(("cat /proc/%d/oom_score"):format(pid)), container.oomScore, "OOM score")
    h.no_session(target)
  end
end

local function a_filter(skip)
  need_target("net10.0", skip)
  local target <close> = h.target("net10.0", "idle")
  local rows = inspect("list", { commandLineContains = "LUNETTE-TARGET IDLE" }).data.list
  if #rows == 0 then rows = inspect("list", { commandLineContains = "LUNETTE-TARGET.DLL IDLE" }).data.list end
  h.ok(h.find(rows, { processId = target.pid }), "the target in any letter case")
  local none = inspect("list", { commandLineContains = "no-such-program" })
  h.eq("[]", json.encode(none.data.list), "no match")
  h.ok(not none.error and none.summary:find("no-such-program", 1, true), "the summary names the filter: " .. none.summary)
end

local function a_stopped_target(skip)
  need_target("net10.0", skip)
  local target <close> = h.target("net10.0", "idle")
  target:signal("STOP")
  local started = loop.now_ms()
  local answer = inspect("list")
  local took = loop.now_ms() - started
  h.ok(took < 10000, "left out after about 2 s, took " .. took .. " ms")
  h.ok(not answer.error, "no error")
  h.ok(not h.find(answer.data.list, { processId = target.pid }), "not in the rows")
  local notes = table.concat(answer.data.notes or {}, "\n")
  h.ok(notes:find(("process %d %%(not%%-answering%%).*kill %%-CONT"):format(target.pid)), "named with the cure: " .. notes)
  local info = inspect("info", { processId = target.pid })
  h.ok(not info.error and info.data.info == nil, "info: success without a record")
  h.eq("EndpointUnavailable", inspect("container", { processId = target.pid }).error.kind, "kind of error")
  target:signal("CONT")
  h.wait_for("the target to answer again", h.START_MS, function() return h.find(inspect("list").data.list, { processId = target.pid }) end)
end

local function a_process_that_is_gone(skip)
  need_target("net10.0", skip)
  local target <close> = h.target("net10.0", "idle")
  local pid = target.pid
  target:signal("KILL") -- leaves its socket behind
  h.wait_for("the end of the target", h.START_MS, function() return not h.alive(pid) end)
  h.ok(not h.find(inspect("list").data.list, { processId = pid }), "a left-over socket is no process")
  local info = inspect("info", { processId = pid })
  h.ok(not info.error and info.data.info == nil, "info of a process that is gone")
  h.eq("ProcessNotFound", inspect("capabilities", { processId = pid }).error.kind, "kind of error")
  local left = sh(("ls -d ${TMPDIR:-/tmp}/dotnet-diagnostic-%d-*-socket"):format(pid))
  h.ok(left ~= "", "the socket was left behind")
  -- The same file under the pid of a process that lives, which the key in the name tells apart.
  local sleeping <close> = sleeper(60)
  local other = sleeping.pid
  sh(("cp -a %s ${TMPDIR:-/tmp}/dotnet-diagnostic-%d-12345-socket"):format(left, other))
  h.ok(not h.find(inspect("list").data.list, { processId = other }), "a stale socket makes no .NET process")
  h.ok(not h.find(ps().unreachable, { processId = other }), "nor one out of reach")
  sh(("rm -f ${TMPDIR:-/tmp}/dotnet-diagnostic-%d-12345-socket"):format(other))
  local second <close> = h.target("net10.0", "idle")
  sh(("rm ${TMPDIR:-/tmp}/dotnet-diagnostic-%d-*-socket; mv %s ${TMPDIR:-/tmp}/dotnet-diagnostic-%d-12345-socket"):format(second.pid, left,
    second.pid))
  local blocked = h.ok(h.find(ps().unreachable, { processId = second.pid }), "a live one whose socket is another's is named")
  h.eq("stale-socket", blocked.cause, "cause")
  h.ok(blocked.hint and blocked.hint:find("restart", 1, true), "cure: " .. tostring(blocked.hint))
end

local function any_process()
  local sleeping <close> = sleeper(60)
  local pid = sleeping.pid
  local trend = inspect("memory_trend", { processId = pid, durationSeconds = 2, sampleEverySeconds = 1 })
  h.eq("stable", trend.data.memoryTrend.verdict, "verdict")
  h.eq("Unknown", trend.resolvedProcess.runtime, "runtime")
  local resources = inspect("resources", { processId = pid }).data.resources
  h.eq(number_of(("ls /proc/%d/fd | wc -l"):format(pid)), resources.fdCount, "descriptors")
  h.eq(nil, resources.managedVsNative.gcHeapBytes, "no heap")
  h.ok(table.concat(resources.notes, "\n"):find("gcHeapBytes", 1, true), "and a note why")
  h.eq("NotADotnetProcess", inspect("capabilities", { processId = pid }).error.kind, "capabilities of sleep")
end

local function a_leak(skip)
  need_target("net10.0", skip)
  local target <close> = h.target("net10.0", "leak", 20)
  local answer = inspect("memory_trend", { processId = target.pid, durationSeconds = 4, sampleEverySeconds = 1 })
  local trend = answer.data.memoryTrend
  h.eq("growing", trend.verdict, "verdict at 20 MB a second")
  h.ok(trend.deltas.rssBytesPerSec > 5 * MB and trend.deltas.rssBytesPerSec < 60 * MB, "rate " .. trend.deltas.rssBytesPerSec)
  h.ok(h.find(answer.hints, { nextTool = "inspect_heap" }), "a hint at the heap")
  h.eq("container", h.ok(h.find(answer.hints, { nextTool = "inspect_process" }), "a hint at the limits").suggestedArguments.view, "view")
end

local function sockets(skip)
  need_target("net10.0", skip)
  local target <close> = h.target("net10.0", "web", 4)
  if not target.port or target.port == 0 then skip("the web target gives no port") end
  local r = inspect("resources", { processId = target.pid, durationSeconds = 2, sampleEverySeconds = 1 }).data.resources
  h.eq(3, #r.trend.samples, "samples")
  h.eq(r.trend.samples[3].fdCount, r.fdCount, "the top level is the newest sample")
  local own = sh(("ls -l /proc/%d/fd | sed -n 's/.*socket:\\[\\([0-9]*\\)\\].*/\\1/p' | sort"):format(target.pid))
  local listening = 0
  for line in (sh(("cat /proc/%d/net/tcp /proc/%d/net/tcp6"):format(target.pid, target.pid)) .. "\n"):gmatch("(.-)\n") do
    local words = {}
    for word in line:gmatch("%S+") do words[#words + 1] = word end
    if words[4] == "0A" and ("\n" .. own .. "\n"):find("\n" .. words[10] .. "\n", 1, true) then listening = listening + 1 end
  end
  h.ok(listening >= 1, "the target listens")
  h.eq(listening, r.sockets.listen, "listening sockets")
  h.ok(r.sockets.established >= 4, "its clients are connected: " .. r.sockets.established)
end

local function another_tmpdir(skip)
  need_target("net10.0", skip)
  local dir = h.scratch()
  local target <close> = h.target("net10.0", "idle", nil, { environment = { TMPDIR = dir } })
  h.ok(sh("ls " .. dir):find("dotnet%-diagnostic%-" .. target.pid), "its socket is there")
  h.ok(h.find(inspect("list").data.list, { processId = target.pid }), "found by its own TMPDIR")
  h.eq("CoreClr", inspect("capabilities", { processId = target.pid }).data.capabilities.runtime, "and usable")
end

local function another_pid_namespace(skip)
  need_target("net10.0", skip)
  need_root(skip)
  local _, code = sh("unshare -p -m -f --mount-proc true")
  if code ~= 0 then skip("PID namespaces cannot be made here") end
  -- As in a container: its own pids, and a folder for its socket that only its own mounts show.
  local target <close> = wrapped_target("net10.0", {
    "env", "TMPDIR=" .. h.scratch(), "unshare", "-p", "-m", "-f", "--mount-proc", "--kill-child", "sh", "-c",
    'mount -t tmpfs none "$TMPDIR" && exec "$@"', "sh",
  })
  local row = h.wait_for("the target in the list", h.START_MS, function()
    return h.find(inspect("list").data.list, { processId = target.pid })
  end)
  h.ok(row.commandLine:find(target.mark, 1, true) or row.commandLine:find("lunette-target", 1, true), "its command line")
  h.ok(number_of(("awk '/^NSpid/{print NF}' /proc/%d/status"):format(target.pid)) > 2, "it has a pid of its own in there")
  local c = inspect("capabilities", { processId = target.pid }).data.capabilities
  h.eq("CoreClr", c.runtime, "a session through the namespace")
  h.eq(target.pid, c.processId, "by the host's pid")
end

local function another_user(skip)
  need_target("net10.0", skip)
  need_root(skip)
  local NOBODY <const> = 65534
  local _, code = sh(("setpriv --reuid %d --regid %d --clear-groups test -x %s"):format(NOBODY, NOBODY, h.lunette))
  if code ~= 0 then skip("another user may not run " .. h.lunette) end
  local target <close> = h.target("net10.0", "idle")
  local blocked = h.ok(h.find(ps(NOBODY).unreachable, { processId = target.pid }), "root's target is named")
  h.eq("permission", blocked.cause, "cause")
  h.ok(blocked.hint and blocked.hint:find("root"), "cure: " .. tostring(blocked.hint))
  local as_nobody = "setpriv --reuid %d --regid %d --clear-groups --inh-caps=-all %s doctor %d"
  local out, exit = sh(as_nobody:format(NOBODY, NOBODY, h.lunette, target.pid))
  h.eq(1, exit, "exit code of doctor on a hard blocker")
  h.ok(out:find("BLOCKED  Owner of the diagnostics socket", 1, true) and out:find("runAsUser: 0", 1, true), out)
end

local function diagnostics_off(skip)
  need_target("net10.0", skip)
  local target <close> = h.target("net10.0", "idle", nil, { environment = { DOTNET_EnableDiagnostics = "0" } })
  local found = h.ok(h.find(ps().unreachable, { processId = target.pid }), "named")
  h.eq("diagnostics-disabled", found.cause, "cause")
  h.ok(found.message:find("DOTNET_EnableDiagnostics=0", 1, true), found.message)
  local answer = inspect("capabilities", { processId = target.pid })
  h.eq("EndpointUnavailable", answer.error.kind, "kind of error")
  h.ok(answer.error.message:find("DOTNET_EnableDiagnostics", 1, true), answer.error.message)
  local out, exit = sh(h.lunette .. " doctor " .. target.pid)
  h.eq(1, exit, "exit code of doctor")
  h.ok(out:find("BLOCKED  Owner of the diagnostics socket", 1, true), out)
end

local function preflight(skip)
  need_target("net10.0", skip)
  local target <close> = h.target("net10.0", "idle")
  local report = inspect("preflight", { processId = target.pid }).data.preflight
  h.eq(5, #report.checks, "checks")
  local socket = h.find(report.checks, { id = "socket-uid" })
  h.eq("Ok", socket.status, "the socket's owner: " .. socket.reason)
  for _, check in ipairs(report.checks) do
    local bad = check.status == "Degraded" or check.status == "Blocked"
    h.eq(bad, check.remediation ~= nil, "a fix exactly where it is not ok: " .. check.id)
  end
  h.eq("NotApplicable", h.find(inspect("preflight").data.preflight.checks, { id = "socket-uid" }).status, "without a pid")
  h.ok(not inspect("preflight", { processId = 999999999 }).error, "a pid that nobody has is no failure")
  local scope = sh("cat /proc/sys/kernel/yama/ptrace_scope 2>/dev/null")
  h.eq(tonumber(scope), inspect("capabilities", { processId = target.pid }).data.capabilities.ptraceScope, "ptraceScope")
  h.no_session(target)
end

local function probe_once(skip)
  need_target("net10.0", skip)
  local target <close> = h.target("net10.0", "idle")
  local server <close> = h.server()
  local function capabilities()
    local started = loop.now_ms()
    local answer = h.ok(server:call("inspect_process", { view = "capabilities", processId = target.pid }))
    return answer.data.capabilities, loop.now_ms() - started
  end
  local began = loop.now_ms()
  local first, first_ms = capabilities()
  h.no_session(target)
  local fastest, calls = math.huge, 0
  while calls < 3 or fastest >= first_ms and loop.now_ms() - began < REMEMBERED_MS do -- one call may be held up by other processes
    local again, ms = capabilities()
    h.eq(first.notes, again.notes, "the same answer")
    fastest, calls = math.min(fastest, ms), calls + 1
  end
  if calls == 3 and loop.now_ms() - began >= REMEMBERED_MS then h.too_slow() end
  -- A session alone takes a tenth of a second, since the runtime writes its stream that often.
  h.ok(fastest < first_ms, ("without a probe it is faster: %d ms, with one %d ms"):format(fastest, first_ms))
  h.no_session(target)
end

local function a_cpu_quota(skip)
  need_target("net10.0", skip)
  need_root(skip)
  local group = "/sys/fs/cgroup/cpu/lunette-live-" .. h.sys.pid
  local _, code = sh(("mkdir %s && echo 20000 > %s/cpu.cfs_quota_us"):format(group, group))
  if code ~= 0 then skip("no CPU quota can be set here (needs a writable v1 cpu controller)") end
  local undo <close> = setmetatable({}, { __close = function()
    sh(("for p in $(cat %s/tasks); do echo $p > /sys/fs/cgroup/cpu/tasks; done; rmdir %s"):format(group, group))
  end })
  h.ok(undo)
  local target <close> = h.target("net10.0", "burn", 1)
  sh(("echo %d > %s/cgroup.procs"):format(target.pid, group))
  h.eq(true, inspect("capabilities", { processId = target.pid }).data.capabilities.canSeeThrottle, "canSeeThrottle")
  local answer = h.wait_for("throttling", h.START_MS, function()
    local a = inspect("container", { processId = target.pid, depth = "Detail" })
    return a.data.container.cpu.nrThrottled > 5 and a
  end)
  local cpu = answer.data.container.cpu
  h.eq(0.2, cpu.quotaCores, "quota in cores")
  h.ok(cpu.throttlePercent > 5, "throttled in " .. tostring(cpu.throttlePercent) .. " % of periods")
  h.ok(h.find(answer.hints, { nextTool = "collect_sample" }), "a hint at the CPU")
  h.eq("V1", answer.data.container.cgroupVersion, "version")
  h.eq(false, answer.data.container.inContainer, "inContainer on v1")
end

return {
  { "what the views say of a .NET 10 process is what the host says", facts_of("net10.0") },
  { "what the views say of a .NET 9 process is what the host says", facts_of("net9.0") },
  { "what the views say of a .NET 8 process is what the host says", facts_of("net8.0") },
  { "what the views say of a NativeAOT process is what the host says", facts_of("aot") },
  { "list: commandLineContains matches in any letter case, and names a filter that matches nothing", a_filter },
  { "list leaves out a stopped target after about 2 s and names it, info has no record, and it comes back", a_stopped_target },
  { "a process that is gone, and a socket that it left behind, are not taken for a live one", a_process_that_is_gone },
  { "memory_trend and resources work on a process that is no .NET process", any_process },
  { "memory_trend: a leak is growing, with its hints", a_leak },
  { "resources: TCP states match the files of the process; the top level is the newest sample", sockets },
  { "a target with another TMPDIR is found", another_tmpdir },
  { "a target in another PID namespace is found and used by the host's pid", another_pid_namespace },
  { "a target of another user is named with cause and cure; doctor exits 1", another_user },
  { "a target with diagnostics switched off is named", diagnostics_off },
  { "preflight never fails, opens no session, and has a fix for what is not ok", preflight },
  { "calls on one pid within a minute give the same answer, faster, and leave no session", probe_once },
  { "container: a CPU quota of cgroup v1 is seen, throttling is measured and hinted", a_cpu_quota },
}
