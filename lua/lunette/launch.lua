-- SPDX-License-Identifier: MIT
-- launch: starts a program so that its .NET runtime waits for us before its first managed instruction, and ends it again.
local config = require("lunette.config")
local errors = require("lunette.errors")
local fs = require("lunette.fs")
local hints = require("lunette.hints")
local ipc = require("lunette.ipc")
local log = require("lunette.log")
local loop = require("lunette.loop")
local redaction = require("lunette.redaction")
local sys = require("lunette.sys")

local M = {}

M.SETTING = "Diagnostics:AllowProcessLaunch"
M.CONNECT_S = 10         -- default for the runtime to connect
M.TERM_MS = 1000         -- from SIGTERM to SIGKILL
M.HELD_MS = 100          -- and when its runtime was still held, which may not listen to SIGTERM
M.KILL_MS = 1000         -- for a killed one to be gone
M.RESUME_MS = 5000       -- for a runtime to answer that it goes on
M.LOG_LINES = 2000       -- of the console, to our log; what follows is dropped and counted
M.KEPT_LINES = 10        -- of the console, for the message of an early end
M.KEPT_BYTES = 200       -- of such a line
local MAX_CMDLINE <const> = 65536
local INFO_MS <const> = 2000 -- for a runtime to tell what it is
local AREA <const> = "launch"
local PORTS <const> = "DOTNET_DiagnosticPorts"
local SUSPEND <const> = "DOTNET_DefaultDiagnosticPortSuspend"
-- Variables that switch the runtime's diagnostics off when they are 0.
local SWITCHES <const> = {
  "DOTNET_EnableDiagnostics", "DOTNET_EnableDiagnostics_IPC", "COMPlus_EnableDiagnostics", "COMPlus_EnableDiagnostics_IPC",
}

-- Variables of a server that are no business of what it starts: its own tokens. By pattern.
local OURS <const> = { "^MCP_BEARER_TOKEN$", "^Auth__BearerTokens" }
-- Commands of the SDK that start the program as another process.
local SDK_COMMANDS <const> = { run = true, watch = true, test = true }
-- Those of the SDK's own programs that start the one, by their entry assembly. Its others (MSBuild, compilers) lie in its folder.
local SDK_STARTERS <const> = { dotnet = true, ["dotnet-watch"] = true, ["vstest.console"] = true }
local SDK_FOLDER <const> = "/sdk/%d[^/]*/" -- …/dotnet/sdk/10.0.100/…

---@class LaunchOptions
---@field argv string[]            without a slash, the program is looked for in PATH
---@field cwd? string
---@field env? table<string, string>   added to our environment
---@field console "log"|"inherit"  log: line by line to our log; inherit: it is the program's own
---@field owned? boolean           it leads a process group, and dies with us: a program that we end
---@field connect_s? number        for its runtime to connect, default CONNECT_S
---@field on_start? fun(launched: Launched)   as soon as the program runs, before its runtime has connected

---@class Launched
---@field pid integer              of the program
---@field process_id integer?      of its runtime: the same, unless the program starts another
---@field exit { code: integer?, signal: integer? }?   once it has ended
---@field waits_elsewhere string?  ports of somebody else at which it waits too
---@field passed integer           processes of the SDK that came before the program
---@field tail string[]            the last lines of its console, with console = "log"
local Launched = {}
Launched.__index = Launched

-- By the id of the runtime: who is held, or was.
local by_process = {}

--- The launch that a process is the runtime of, while it lasts; nil for any other process.
---@param process_id integer
---@return Launched?
function M.of(process_id) return by_process[process_id] end

--- Why this caller may not start a program, or nil.
---@param ctx { transport: string }
function M.refusal(ctx)
  if ctx.transport == "cli" then return nil end
  if ctx.transport ~= "stdio" then
    return errors.not_supported("launch works over stdio only: a shared server starts no programs for its callers. Start the program "
      .. "yourself and give its processId, or use lunette run on that machine.")
  end
  if not config.get(M.SETTING) then
    return errors.new("ProcessLaunchDisabled", ("launch is switched off: the operator allows it with %s=true in the server's environment.")
      :format(config.variable(M.SETTING)), { detail = M.SETTING })
  end
  return nil
end

-- ---- the program --------------------------------------------------------------------------------------------------------------

local function environment(options, path)
  local given = options.env or {}
  local env = {}
  for name in pairs(options.owned and sys.environ() or {}) do
    for _, pattern in ipairs(OURS) do
      if name:find(pattern) then env[name] = false end
    end
  end
  for name, value in pairs(given) do env[name] = value end
  env[SUSPEND] = false -- one place to wait at is enough
  local others = given[PORTS] or sys.getenv(PORTS)
  env[PORTS] = path .. ",suspend" .. (others and others ~= "" and ";" .. others or "")
  return env
end

-- The ports of somebody else at which the program waits too: the runtime starts when all have let it go on.
local function waits_elsewhere(ports)
  local list = {}
  for port in (ports or ""):gmatch("[^;]+") do
    local lower = port:lower()
    if not lower:find(",%s*nosuspend") and not lower:find(",%s*listen") then list[#list + 1] = port end
  end
  return list[1] and table.concat(list, ";")
end

--- The variable that switches the diagnostics off, or nil.
local function switched_off(options)
  for _, name in ipairs(SWITCHES) do
    local value = (options.env or {})[name] or sys.getenv(name)
    if value and value:match("^%s*0+%s*$") then return name end
  end
  return nil
end

local function keep(self, text)
  text = sys.utf8_cut(sys.utf8_sanitize(redaction.redact(text)), M.KEPT_BYTES)
  table.insert(self.tail, text)
  if #self.tail > M.KEPT_LINES then table.remove(self.tail, 1) end
end

-- A task of its own: the console goes to our log, as far as it is bounded.
local function pump(self)
  local n = 0
  while true do
    local line = self.child:line()
    if not line then break end
    n = n + 1
    keep(self, line.text)
    if n <= M.LOG_LINES then
      log.info(AREA, redaction.redact(line.text), { pid = self.pid, stream = line.stream, cut = line.cut })
    end
  end
  local dropped = math.max(0, n - M.LOG_LINES) + self.child:dropped()
  if dropped > 0 then log.notice(AREA, "further output was not logged", { pid = self.pid, lines = dropped }) end
end

-- ---- why it did not come --------------------------------------------------------------------------------------------------------

--- "with exit code 3", "by signal 9".
---@param exit { code: integer?, signal: integer? }
function M.ending(exit)
  return exit.code and ("with exit code %d"):format(exit.code) or ("by signal %d"):format(exit.signal)
end

local function last_words(self)
  if #self.tail == 0 then return "" end
  return " Its last output: " .. table.concat(self.tail, " | ")
end

local function start_failed(options, err)
  local name = options.argv[1]
  local folder, why = fs.stat((options.cwd or "") .. "/.") -- the start's own error does not tell which of the two is not there
  if not folder then
    return errors.new("InvalidArgument", ("%s cannot be started in %s, which is no folder that can be entered: %s.")
      :format(name, options.cwd, why.message), { detail = "launch.workingDirectory", hints = {} })
  end
  if err.kind == "PermissionDenied" then
    return errors.new("InvalidArgument", ("%s may not be started: %s."):format(name, err.message),
      { detail = "launch.fileName", hints = {} })
  end
  local where = options.cwd and (" in " .. options.cwd) or ""
  return errors.new("InvalidArgument", ("%s cannot be started%s: %s. Give the path of an executable, or of one in PATH; for a .dll "
    .. "start dotnet with it."):format(name, where, err.message), { detail = "launch.fileName", hints = {} })
end

local NEXT <const> = "inspect_process"

local function ended_early(self)
  if self.passed > 0 then
    return errors.new("ProcessExited", ("%s ended %s before the program that it should start connected; %d process%s of the SDK came.%s")
      :format(self.name, M.ending(self.exit), self.passed, self.passed == 1 and "" or "es", last_words(self)),
      { process_id = self.pid, hints = {} })
  end
  return errors.new("ProcessExited", ("%s ended %s before a .NET runtime connected: it is no .NET program, or it failed before its "
    .. "runtime was up.%s"):format(self.name, M.ending(self.exit), last_words(self)),
    { process_id = self.pid, hints = { hints.new(NEXT, "See which .NET processes there are.", { view = "list" }) } })
end

local function never_came(self, seconds)
  if self.passed > 0 then
    return errors.new("EndpointUnavailable", ("Only the SDK's own processes connected within %g s, and not yet the program that %s should "
      .. "start: a build wants a larger connectTimeoutSeconds, or launch the built program itself.%s"):format(seconds, self.name,
      last_words(self)), { process_id = self.pid, hints = {} })
  end
  local seen = ipc.resolve(self.pid)
  local runtime = seen and seen.runtime
  if not runtime then
    return errors.new("NotADotnetProcess", ("%s runs, but has no .NET runtime, and none connected within %g s.%s")
      :format(self.name, seconds, last_words(self)), { process_id = self.pid })
  end
  return errors.new("EndpointUnavailable", ("%s has a .NET runtime (%s) that did not connect within %g s: .NET 5 is the first that can, "
    .. "a NativeAOT program must be built with EventSourceSupport, and DOTNET_EnableDiagnostics must not be 0. A slow start wants a "
    .. "larger connectTimeoutSeconds.%s"):format(self.name, runtime, seconds, last_words(self)), { process_id = self.pid })
end

-- ---- starting and ending --------------------------------------------------------------------------------------------------------

-- Waits for the runtime, the end of the program or the deadline, whichever is first. The runtime, or nil.
local function first_of(self, timeout_ms)
  local news = loop.channel(2)
  local listens = loop.spawn(function()
    local runtime, err = self.port:wait(timeout_ms)
    news:send({ runtime = runtime, err = err })
  end)
  local watches = loop.spawn(function()
    self.ending:await()
    news:send({})
  end)
  local first, err = news:recv(timeout_ms + 1000)
  listens:cancel("no longer waited for")
  watches:cancel("no longer waited for")
  if not first then return nil, err end
  if first.err and first.err.kind ~= "Timeout" then return nil, first.err end
  return first.runtime
end

--- Whether a command is one of the SDK that starts the program as another process (dotnet run).
---@param argv string[]
function M.is_sdk_command(argv)
  return argv[1]:match("[^/]+$") == "dotnet" and SDK_COMMANDS[argv[2] or ""] == true
end

-- Lets the SDK's own processes pass. True when this one was.
local function pass_sdk(self, runtime)
  if not self.sdk or runtime.gone then return false end
  local info = ipc.process_info(runtime.pid, INFO_MS)
  local starts = info ~= nil and SDK_STARTERS[info.entrypoint or ""] == true
  local words = fs.read(("/proc/%d/cmdline"):format(runtime.pid), MAX_CMDLINE) or ""
  local program = words:match("^[^%z]*%z?[^%z]*%z?[^%z]*") -- of "dotnet exec …/MSBuild.dll" too
  if not starts and not program:find(SDK_FOLDER) then return false end
  self.port:skip(starts)
  self.passed = self.passed + 1
  return true
end

--- Starts a program and waits until its runtime is held. However the calling task ends, an owned program is ended with it.
---@param options LaunchOptions
---@return Launched?, table? err, Launched? ended   InvalidArgument, ProcessExited, NotADotnetProcess, EndpointUnavailable, Cancelled;
--- ended: the program that ran, if it did
---@nodiscard
function M.start(options)
  local off = switched_off(options)
  if off then
    return nil, errors.new("EndpointUnavailable", ("%s=0 switches off the diagnostics of the program: start it without."):format(off),
      { detail = off, hints = {} })
  end
  local earlier = (options.env or {})[PORTS] or sys.getenv(PORTS)
  local port, err = ipc.listen { restore = earlier or false }
  if not port then return nil, err end
  local console = options.console == "inherit" and "inherit" or "lines"
  local child
  child, err = loop.child {
    argv = options.argv, cwd = options.cwd, env = environment(options, port.path), stdin = console == "inherit" and "inherit" or "null",
    stdout = console, stderr = console, group = options.owned, dies_with_us = options.owned,
  }
  if not child then
    port:close()
    return nil, start_failed(options, err)
  end
  local self = setmetatable({ child = child, pid = child.pid, port = port, name = options.argv[1], owned = options.owned, tail = {},
    sdk = M.is_sdk_command(options.argv), passed = 0, waits_elsewhere = waits_elsewhere(earlier or nil) },
    Launched)
  self.ending = loop.spawn(function() self.exit = child:wait() end)
  if console == "lines" then self.pumping = loop.spawn(pump, self) end
  if options.owned then loop.on_cleanup(function() self:finish(true) end) end
  if options.on_start then options.on_start(self) end
  local seconds = options.connect_s or M.CONNECT_S
  local deadline = loop.now_ms() + seconds * 1000
  local runtime
  repeat runtime, err = first_of(self, math.max(1, math.floor(deadline - loop.now_ms()))) until not runtime or not pass_sdk(self, runtime)
  if runtime and not runtime.gone then
    self.process_id = runtime.pid
    by_process[runtime.pid] = self
    return self
  end
  if not err and not self.exit and runtime then self.ending:await(M.KILL_MS) end -- the runtime has gone: so will the program
  if self.exit and self.pumping then self.pumping:await(M.KILL_MS) end
  if not err then err = self.exit and ended_early(self) or never_came(self, seconds) end
  if self.owned then self:finish() else port:close() end
  return nil, err, self
end

--- Whether the runtime waits still: nothing of the program has run.
function Launched:is_held() return self.port:stats().held end

--- Lets the runtime go on without a session. True, or nil, err.
function Launched:resume()
  self.port:release()
  return self.port:wait_resumed(M.RESUME_MS)
end

--- How many .NET processes the program has started beside the first; they were not held.
function Launched:others() return math.max(0, self.port:stats().runtimes - 1 - self.passed) end

--- Ends the program (SIGTERM, then SIGKILL, to all of its process group) and takes the port away. May be called again. A task that is
--- cancelled may not wait any more: its cleanup does it.
---@param cleaning? boolean
function Launched:finish(cleaning)
  if self.finished or (loop.cancelled() and not cleaning) then return end
  self.finished = true
  local held = self:is_held() -- then it has nothing to put away
  if self.process_id then by_process[self.process_id] = nil end
  if not self.exit then
    self.child:kill("TERM")
    self.ending:await(held and M.HELD_MS or M.TERM_MS)
  end
  if not self.exit then
    self.child:kill("KILL")
    self.ending:await(M.KILL_MS)
  end
  self.n_others = self:others()
  self.port:close()
  self.child:close()
  local exit = self.exit or {}
  log.info(AREA, "the launched program has ended", { pid = self.pid, code = exit.code, signal = exit.signal })
end

return M
