-- SPDX-License-Identifier: MIT
-- A machine made up for a test: processes, what the kernel and the diagnostics client say of them, event sessions. Modules under test are
-- loaded afresh on top of it.
local engine = require("support.fake_engine")
local fs = require("lunette.fs")
local loop = require("lunette.loop")
local memory = require("lunette.memory")

local M = {}
local Machine = {}
Machine.__index = Machine

-- Modules that hold on to lunette.ipc, lunette.proc or lunette.events, or to each other.
local FRESH <const> = {
  "lunette.process", "lunette.readiness", "views.process.list", "views.process.info", "views.process.capabilities",
  "views.process.container", "views.process.memory_trend", "views.process.resources", "views.process.preflight", "views.process.sampling",
  "collectors.counters", "lunette.cost", "lunette.probe", "lunette.probe.run",
  "collectors.window", "cli.ps", "cli.doctor", "tools.inspect_process",
}

local confines <const> = memory.confines

local function failure(kind, message, hint) return { kind = kind, message = message, hint = hint } end

--- A process. Members that a test does not give have plain values.
---@param given { pid: integer }
function M.process(given)
  local p = {
    start_time = 1000, uid = 0, runtime = "CoreClr", state = "ok", rss = 100 * 1024 * 1024,
    info = {
      processId = given.pid, commandLine = "/usr/bin/dotnet /app/App.dll", os = "Linux", arch = "x64", entrypoint = "App",
      runtimeVersion = "10.0.1", version = 3,
    },
  }
  for name, value in pairs(given) do p[name] = value end
  return p
end

local function endpoint_of(p)
  local runtime = p.runtime ~= "unseen" and p.runtime or nil
  return {
    pid = p.pid, nspid = p.pid, start_time = p.start_time, uid = p.uid, same_namespace = true, runtime = runtime, state = p.state,
    cause = p.cause, message = p.message, hint = p.hint, info = p.state == "ok" and p.info or nil,
  }
end

function Machine:find(pid)
  for _, p in ipairs(self.processes) do
    if p.pid == pid then return p end
  end
  return nil
end

local function gone(pid) return nil, failure("ProcessNotFound", "there is no process " .. pid) end

local function ipc_of(self)
  local function known(pid)
    local p = self:find(pid)
    if not p then return gone(pid) end
    if not p.runtime then return nil, failure("NotADotnetProcess", "process " .. pid .. " is not a .NET process") end
    return p
  end
  return {
    discover = function()
      self.discoveries = self.discoveries + 1
      local list = {}
      for _, p in ipairs(self.processes) do
        if p.runtime then list[#list + 1] = endpoint_of(p) end
      end
      return list
    end,
    resolve = function(pid)
      local p, err = known(pid)
      if not p then return nil, err end
      return endpoint_of(p)
    end,
    process_info = function(pid)
      local p, err = known(pid)
      if not p then return nil, err end
      if p.state ~= "ok" then return nil, failure("EndpointUnavailable", p.message, p.hint) end
      if p.no_answer then return nil, failure(p.no_answer, "no answer", p.hint) end
      return p.info
    end,
  }
end

local function reader(self, name, read)
  return function(pid)
    local p = self:find(pid)
    if not p or p.ended then return gone(pid) end
    self.reads[name] = (self.reads[name] or 0) + 1
    return read(p)
  end
end

local function proc_of(self)
  return {
    clock = function() return { boot_unix_s = 1700000000, ticks_per_s = 100, page_bytes = 4096, uptime_ms = 100000 } end,
    stat = reader(self, "stat", function(p)
      return {
        pid = p.pid, start_time = p.start_time, threads = p.threads or 10, rss_bytes = p.rss, user_ticks = 100, system_ticks = 50,
        minor_faults = p.minor_faults or 500, major_faults = p.major_faults or 5, state = p.run_state or "S",
      }
    end),
    status = reader(self, "status", function(p) return { uid = p.uid, euid = p.uid, rss_bytes = p.rss, threads = p.threads or 10 } end),
    environ = reader(self, "environ", function(p) return p.environ or {} end),
    smaps_rollup = reader(self, "smaps_rollup", function(p)
      if p.on_sample then p.on_sample(p, self.reads.smaps_rollup) end
      if p.no_rollup then return nil, failure("PermissionDenied", "cannot open smaps_rollup") end
      return { rss_bytes = p.rss, pss_bytes = p.rss // 2, anonymous_bytes = p.rss // 4 }
    end),
    limits = reader(self, "limits", function(p) return p.limits or { nofile_soft = 1024, nofile_hard = "unlimited" } end),
    fds = reader(self, "fds", function(p)
      if p.on_fds then p.on_fds(p, self.reads.fds) end
      if p.fds == false then return nil, failure("PermissionDenied", "cannot list fd", "run as root") end
      return p.fds or {
        count = 20, sockets = 4, regular = 10, pipes = 3, eventfds = 2, other = 1, unclassified = 0, notes = {},
        tcp = { established = 2, time_wait = 0, close_wait = 0, listen = 1, other = 1 },
      }
    end),
    cgroup = reader(self, "cgroup", function(p)
      return p.cgroup or { version = "V2", hybrid = false, in_container = true, path = "/app", notes = {}, psi = false }
    end),
    thread_cpu = reader(self, "thread_cpu", function() return {} end), own_cpu = function() return { process_ns = 0 } end,
    host = function() return self.host end,
    perf_probe = function(pid)
      self.probed = pid
      return self.perf_probe
    end,
    link = reader(self, "link", function(p)
      if p.no_link then return nil, failure("PermissionDenied", "cannot read the link") end
      return "/app/App"
    end),
    can_attach = reader(self, "can_attach", function(p)
      if p.no_attach then return nil, failure("PermissionDenied", "no") end
      return true
    end),
  }
end

-- A session of lunette.events that gives the batches of process.events one by one, then waits.
local function source_of(self, p, spec)
  self.sessions[#self.sessions + 1] = spec
  self.open_sessions = self.open_sessions + 1
  local batches, at, closed = p.events or {}, 0, false
  local source = {}
  local function close()
    if not closed then self.open_sessions = self.open_sessions - 1 end
    closed = true
  end
  function source.next(_, timeout_ms)
    at = at + 1
    if batches[at] then return spec.program and engine.records(spec.program, batches[at]) or batches[at] end
    local ok, err = loop.sleep_ms(math.min(timeout_ms or 1000, 20))
    if not ok then return nil, err end
    return nil, failure("Timeout", "none yet")
  end
  function source.stop()
    close()
    return { complete = true, lost = 0, dropped = 0, start_unix_ns = 0 }
  end
  source.result, source.finished = engine.result, function() return false end
  source.close = close
  return setmetatable(source, { __close = close })
end

local function events_of(self)
  return {
    open = function(spec)
      local p = self:find(spec.pid)
      if not p then return gone(spec.pid) end
      if p.no_session then return nil, failure("EndpointUnavailable", p.no_session) end
      return source_of(self, p, spec)
    end,
  }
end

--- A host on which everything works.
function M.open_host()
  return {
    uid = 0, cap_eff = "0x1ffffffffff", user_namespace = false, seccomp = 0, no_new_privs = 0, perf_event_paranoid = 2, kptr_restrict = 0,
    release = "6.1.0", tracefs = "/sys/kernel/tracing", psi = true, uprobe_events_writable = true,
    capabilities = { sys_ptrace = true, sys_admin = true, perfmon = true, bpf = true, syslog = true, dac_read_search = true },
  }
end

--- Sets up the machine; `load` then gives a module on top of it.
---@param given? { processes: table[], host: table, perf_probe: table, confines: boolean }
function M.new(given)
  given = given or {}
  local ok = { ok = true }
  local self = setmetatable({
    processes = given.processes or {}, host = given.host or M.open_host(), reads = {}, sessions = {}, open_sessions = 0, discoveries = 0,
    perf_probe = given.perf_probe or { cpu_clock = ok, hardware = ok, sched_switch = ok, uprobe = ok },
  }, Machine)
  for _, name in ipairs(FRESH) do package.loaded[name] = nil end
  package.loaded["lunette.ipc"], package.loaded["lunette.proc"] = ipc_of(self), proc_of(self)
  package.loaded["lunette.events"] = events_of(self)
  memory.confines = function() return given.confines ~= false end
  return self
end

--- A perf that works: a script which says its version.
function Machine:with_perf(body)
  local dir = os.tmpname()
  os.remove(dir)
  assert(fs.mkdirs(dir))
  self.perf_dir = dir
  local f = assert(io.open(dir .. "/perf", "w"))
  f:write("#!/bin/sh\n", body or "echo perf version 6.1.0\n")
  f:close()
  assert(loop.exec { argv = { "/bin/chmod", "+x", dir .. "/perf" }, timeout_ms = 5000 })
  self.host.perf = dir .. "/perf"
  return self
end

function Machine:close()
  memory.confines = confines
  if self.perf_dir then loop.exec { argv = { "/bin/rm", "-rf", self.perf_dir }, timeout_ms = 5000 } end
end

function Machine.load(_, name) return require(name) end

--- The context of a call by somebody with these scopes; root without any.
function M.ctx(scopes)
  local set = {}
  for _, scope in ipairs(scopes or {}) do set[scope] = true end
  return {
    principal = { name = "test", scopes = set, is_root = scopes == nil }, transport = "cli", era = "modern", state = {},
    progress = function() end, log = function() end, can = function() return false end, cancelled = function() return false end,
  }
end

return M
