-- SPDX-License-Identifier: MIT
-- preflight: is this environment ready, and the fix to paste where it is not. Never fails; opens no session.
local hints = require("lunette.hints")
local ipc = require("lunette.ipc")
local json = require("lunette.json")
local loop = require("lunette.loop")
local proc = require("lunette.proc")
local readiness = require("lunette.readiness")

local M = {}

local SEVERITY <const> = { Blocked = 3, Degraded = 2, Ok = 1, NotApplicable = 0 }
local ORDER <const> = { __order = { "id", "title", "status", "reason", "remediation", "affectedTools" } }
local REPORT_ORDER <const> = { __order = { "processId", "os", "overall", "checks" } }
local ALL_TOOLS <const> = { "all tools" }
local ATTACHING <const> = {
  "collect_thread_snapshot", "inspect_heap(source=\"live\")", "capture_method_bytes", "get_bytes(kind=\"module\")",
  "collect_sample(kind=\"cpu\", resolveMethodInstantiations=true)",
}
local SAME_USER <const> = "docker run --user %d …   # Kubernetes: securityContext: { runAsUser: %d }; else: sudo -u '#%d' lunette serve"

local function check(id, title, status, reason, remediation, tools)
  return setmetatable({
    id = id, title = title, status = status, reason = reason,
    remediation = status ~= "Ok" and status ~= "NotApplicable" and remediation or nil,
    affectedTools = json.array({ table.unpack(tools) }),
  }, ORDER)
end

local STANDS <const> = { T = true, t = true } -- states of /proc/PID/stat

-- What the diagnostics client says of an endpoint that is not there or does not let us in.
local function endpoint_check(id, title, pid, status)
  local endpoint, err = ipc.resolve(pid)
  local stat = proc.stat(pid)
  if endpoint and endpoint.state == "ok" and stat and STANDS[stat.state] then
    local reason = ("process %d stands still (SIGSTOP, or a debugger holds it): its runtime answers when it goes on"):format(pid)
    return check(id, title, "Blocked", reason, ("kill -CONT %d   # or detach the debugger"):format(pid), ALL_TOOLS)
  end
  if endpoint and endpoint.state == "ok" then
    local reason = ("the diagnostics socket of process %d belongs to uid %d, as whom (or as root) we run"):format(pid, status.euid)
    return check(id, title, "Ok", reason, nil, ALL_TOOLS)
  end
  -- A .NET process that cannot be reached: no tool works. One that is none may still be watched by memory_trend and resources.
  local why, outcome = endpoint or err, endpoint and "Blocked" or "Degraded"
  return check(id, title, outcome, tostring(why.message or why), why.hint or "lunette ps   # which processes can be reached", ALL_TOOLS)
end

--- The socket is for its owner (and root) only.
local function socket_uid(pid, host)
  local id <const>, title <const> = "socket-uid", "Owner of the diagnostics socket"
  if not pid then return check(id, title, "NotApplicable", "no process was given", nil, ALL_TOOLS) end
  local status, err = proc.status(pid)
  if not status then
    local remedy = err.kind == "ProcessNotFound" and "lunette ps   # which processes there are, by their pid in this PID namespace"
      or err.hint or "mount /proc without hidepid, or run as root"
    return check(id, title, "Degraded", "the owner is not known: " .. tostring(err.message or err), remedy, ALL_TOOLS)
  end
  if host.uid ~= 0 and host.uid ~= status.euid then
    local reason = ("process %d belongs to uid %d and lunette runs as uid %d: the socket lets only its owner and root in")
      :format(pid, status.euid, host.uid)
    return check(id, title, "Blocked", reason, SAME_USER:format(status.euid, status.euid, status.euid), ALL_TOOLS)
  end
  return endpoint_check(id, title, pid, status)
end

local function from(finding, id, title, failing, tools)
  return check(id, title, finding.ok and "Ok" or failing, finding.reason, finding.fix, tools)
end

--- The five checks, the most severe first, and the worst status of those that apply.
---@param pid? integer
---@return table report   PreflightReport
function M.report(pid)
  local facts = readiness.facts(pid)
  local checks = {
    socket_uid(pid, facts.host),
    from(readiness.attach(facts, pid), "clrmd-attach", "Live attach (ptrace)", "Blocked", ATTACHING),
    from(readiness.off_cpu(facts), "offcpu-perf", "Off-CPU sampling (sched_switch)", "Degraded",
      { "collect_sample(kind=\"off_cpu\")" }),
    from(readiness.native_alloc(facts), "native-alloc", "Native allocation probes (uprobes)", "Degraded",
      { "collect_sample(kind=\"native-alloc\")" }),
    from(readiness.native_lock(facts), "native-lock-contention", "Native lock probes (uprobes)", "Degraded",
      { "collect_sample(kind=\"native-lock-contention\")" }),
  }
  local overall, place = "Ok", {}
  for i, c in ipairs(checks) do
    place[c] = i
    if SEVERITY[c.status] > SEVERITY[overall] then overall = c.status end
  end
  table.sort(checks, function(a, b)
    if a.status ~= b.status then return SEVERITY[a.status] > SEVERITY[b.status] end
    return place[a] < place[b]
  end)
  return setmetatable({ processId = pid, os = "linux", overall = overall, checks = json.array(checks) }, REPORT_ORDER)
end

local function summary_of(report)
  local counts, worst = { Ok = 0, Degraded = 0, Blocked = 0, NotApplicable = 0 }, report.checks[1]
  for _, c in ipairs(report.checks) do counts[c.status] = counts[c.status] + 1 end
  local text = ("Preflight%s: %s (%d ok, %d degraded, %d blocked)."):format(report.processId and " of process " .. report.processId or "",
    report.overall, counts.Ok, counts.Degraded, counts.Blocked)
  if worst.status ~= "Ok" then text = ("%s First: %s, %s."):format(text, worst.id, worst.reason) end
  return text
end

--- inspect_process(view="preflight").
function M.run(_ctx, args)
  local pid = args.processId ~= 0 and args.processId or nil
  local report = M.report(pid)
  if loop.cancelled() then return nil, { kind = "Cancelled", message = "cancelled" } end
  local next_hint = pid and report.overall ~= "Blocked"
    and hints.new("inspect_process", "See which collectors work on it.", { view = "capabilities", processId = pid })
    or hints.new("inspect_process", "See which .NET processes can be reached.", { view = "list" })
  return report, { summary = summary_of(report), hints = { next_hint } }
end

return M
