-- SPDX-License-Identifier: MIT
-- The live tests' tools: targets with known loads, a server of our own, calls over HTTP and by command line, and the counts (descriptors,
-- threads, children, sessions) that must be back where they were. Runs inside our host: lunette lua tests/live/run.lua.
local atomic = require("lunette.atomic")
local conform = require("conform")
local fs = require("lunette.fs")
local json = require("lunette.json")
local loop = require("lunette.loop")
local sys = require("lunette.sys")

local M = {}

M.SKIP = 77
M.START_MS = 90000 -- a target or server that is not ready by then has failed
M.POLL_MS = 10
M.lunette = fs.realpath("/proc/self/exe")
M.source = os.getenv("LUNETTE_SOURCE_DIR") or fs.realpath(".")
M.build = os.getenv("LUNETTE_BUILD_DIR") or M.lunette:match("^(.*)/[^/]+$")
M.targets = M.build .. "/targets"

local CALL_MS <const> = 180000 -- no call takes a tenth of this beside its window, however slow the machine

local scratch, n_scratch = nil, 0

--- A number that no other caller gets.
M.number = atomic(function()
  n_scratch = n_scratch + 1
  return n_scratch
end)

-- The name is made here, so that cases side by side share one folder without waiting for each other.
local scratch_root = atomic(function()
  scratch = scratch or ("%s/lunette-live-%d-%08x"):format("/tmp", sys.pid, math.random(0, 0xffffffff))
  return scratch
end)

--- A fresh private folder, removed at the end of the run.
function M.scratch()
  local dir = scratch_root() .. "/" .. M.number()
  assert(fs.mkdirs(dir))
  return dir
end

local slowness <const> = { factor = 1, most = 8 }

--- By how much the windows of collections are longer than a test says: 1, or more once the machine has shown to be slow.
function M.slowness() return slowness.factor end

M.TOO_SLOW = setmetatable({}, { __tostring = function() return "the window ended before the work in it" end })

--- Ends the case; run.lua begins it again, with windows twice as long, or gives up.
function M.too_slow() error(M.TOO_SLOW, 0) end

M.slow_down = atomic(function()
  if slowness.factor >= slowness.most then return false end
  slowness.factor = slowness.factor * 2
  return true
end)

local windows = { over = {}, open = {} } -- by process: how many have ended; when those that are open end at the earliest

--- A window of a collection on a process begins now, or a little later. Returns what ends it.
M.window_begins = atomic(function(pid, seconds)
  local window = { pid = pid, ends_ms = loop.now_ms() + seconds * 1000 }
  windows.open[window] = true
  return window
end)

--- envelope: the answer, when it may be one without a window: a question, an error, nothing.
M.window_ends = atomic(function(window, envelope)
  windows.open[window] = nil
  if envelope ~= true and not (envelope and envelope.data) then return end
  windows.over[window.pid] = (windows.over[window.pid] or 0) + 1
end)

--- How many windows on a process have ended, or may have: an answer comes some time after the last event that is in it.
M.windows_over = atomic(function(pid)
  local n, now = windows.over[pid] or 0, loop.now_ms()
  for window in pairs(windows.open) do
    if window.pid == pid and window.ends_ms <= now then n = n + 1 end
  end
  return n
end)

local WITH_WINDOW <const> = { collect_events = true, collect_sample = true }

local function window_of(tool, arguments)
  if not WITH_WINDOW[tool] or not arguments.processId then return nil end
  return M.window_begins(arguments.processId, arguments.durationSeconds or 300)
end

local function call_ms(arguments) return CALL_MS + 1000 * (math.tointeger(arguments.durationSeconds) or 0) end

-- The arguments of a tool; of a collection with a window as long as this machine needs it. An approved call stays what was approved.
local function stretched(tool, arguments)
  if slowness.factor == 1 or not WITH_WINDOW[tool] or not arguments.durationSeconds then return arguments end
  if arguments._dotnetDiagnostics then return arguments end
  local given = {}
  for name, value in pairs(arguments) do given[name] = value end
  given.durationSeconds = math.min(300, arguments.durationSeconds * slowness.factor)
  return given
end

--- Removes what scratch made.
function M.cleanup()
  if scratch then loop.exec { argv = { "rm", "-rf", scratch }, timeout_ms = 10000 } end
  scratch = nil
end

local function read(path) return fs.read(path, 16 * 1024 * 1024) or "" end

--- Waits until fn gives something that is not nil or false; an error with `what` after timeout_ms.
function M.wait_for(what, timeout_ms, fn)
  local deadline = loop.now_ms() + timeout_ms
  while true do
    local value = fn()
    if value then return value end
    if loop.now_ms() > deadline then error("timed out after " .. timeout_ms .. " ms waiting for " .. what, 2) end
    assert(loop.sleep_ms(M.POLL_MS))
  end
end

local function signal(pid, name) return loop.exec { argv = { "kill", "-" .. name, tostring(pid) }, timeout_ms = 5000 } end
function M.alive(pid) return fs.stat("/proc/" .. pid .. "/stat") ~= nil end

-- ---- targets ----------------------------------------------------------------------------------------------------------------

local Target = {}
Target.__index = Target
Target.__close = function(self) self:kill() end

local targets_built = {}

--- Makes sure that the target of a runtime is built. True, or nil and the reason why it cannot be.
---@param runtime "net10.0"|"net9.0"|"net8.0"|"aot"
function M.build_target(runtime)
  if targets_built[runtime] then return true end
  local done = assert(loop.exec {
    argv = { "sh", M.source .. "/tests/targets/build.sh", M.targets, runtime }, timeout_ms = 600000, max_output = 1024 * 1024,
  })
  targets_built[runtime] = done.code == 0
  if done.code == 0 then return true end
  if done.code == M.SKIP then return nil, (done.stdout:gsub("%s+$", "")) end
  error("tests/targets/build.sh failed: " .. done.stdout .. done.stderr)
end

--- Starts a child with its standard input as a FIFO, its output in files; it dies with this process.
local function start_child(argv, environment)
  local dir = M.scratch()
  local env = {}
  for name, value in pairs(environment or {}) do env[#env + 1] = ("%s='%s'"):format(name, value) end
  local words = {}
  for i, word in ipairs(argv) do words[i] = "'" .. word .. "'" end
  local child = { dir = dir, fifo = dir .. "/in", out = dir .. "/out", err = dir .. "/err" }
  assert(loop.exec { argv = { "mkfifo", child.fifo }, timeout_ms = 5000 })
  local script = ("cd %s; echo $$ > pid; exec env %s setpriv --pdeathsig KILL %s 0<>in >out 2>%s"):format(dir, table.concat(env, " "),
    table.concat(words, " "), environment and environment.STDERR or "err")
  child.task = loop.spawn(function()
    child.exit = loop.exec { argv = { "sh", "-c", script }, timeout_ms = 900000 } or { code = -1 }
    return child.exit
  end)
  child.pid = tonumber(M.wait_for("the child's pid", M.START_MS, function() return read(dir .. "/pid"):match("^(%d+)\n") end))
  return child
end

--- Starts any program that says READY, with the same life as a target.
---@param argv string[]
---@param name string
---@param environment table?
function M.start(argv, name, environment)
  local self = setmetatable({ child = start_child(argv, environment), mode = name }, Target)
  self.pid = self.child.pid
  self.ready = self:line("^READY ")
  return self
end

--- Starts a target and waits for its READY.
---@param runtime string
---@param mode string
---@param number integer?
---@param options { args: string[]?, environment: table?, go: boolean?, wrapper: string[]? }?   go: start the load, and wait until it runs
function M.target(runtime, mode, number, options)
  options = options or {}
  local argv = { table.unpack(options.wrapper or {}) }
  table.move({ M.targets .. "/" .. runtime .. "/lunette-target", mode, number and tostring(number) or nil }, 1, 3, #argv + 1, argv)
  for _, word in ipairs(options.args or {}) do argv[#argv + 1] = word end
  local self = M.start(argv, mode, options.environment)
  self.runtime, self.port = runtime, tonumber(self.ready:match("(%d+)$"))
  if options.go ~= false then self:command("go", "^GOING") end
  return self
end

--- Waits for an output line that matches; the first one, or the first from a place in the output on.
function Target:line(pattern, from)
  return M.wait_for(("%s of the %s target"):format(pattern, self.mode), M.START_MS, function()
    for line in read(self.child.out):sub(from or 1):gmatch("([^\n]+)\n") do -- whole lines: one that is being written has no end yet
      if line:find(pattern) then return line end
    end
    if self.child.exit then error("the target ended early: " .. read(self.child.out) .. read(self.child.err)) end
    return nil
  end)
end

--- Sends a command and waits for its answer.
function Target:command(word, answer)
  local from = #read(self.child.out) + 1
  local f = assert(io.open(self.child.fifo, "w"))
  f:write(word, "\n")
  f:close()
  self.said_before = from
  return answer and self:line(answer, from)
end

function Target:signal(name) signal(self.pid, name) end

--- Kills it and waits until it is gone. Takes away the sockets that a killed runtime leaves.
function Target:kill()
  if self.gone then return end
  self.gone = true
  signal(self.pid, "KILL")
  self.child.task:await(M.START_MS)
  local tmp = os.getenv("TMPDIR") or "/tmp"
  for _, name in ipairs(fs.list(tmp) or {}) do
    if name:find("^[%w-]*dotnet%-%l+%-" .. self.pid .. "%-") or name:find("^clr%-debug%-pipe%-" .. self.pid .. "%-") then
      fs.remove(tmp .. "/" .. name)
    end
  end
end

-- Connections to a runtime's diagnostics socket by their state in /proc/net/unix.
local function connections_by_state(pid)
  local by = {}
  for line in read("/proc/net/unix"):gmatch("[^\n]+") do
    -- Num RefCount Protocol Flags Type St Inode Path. The accepted end carries the path.
    local state, path = line:match("^%S+ %S+ %S+ %S+ %S+ (%S+)%s+%d+%s+(%S+)")
    if path and path:find("dotnet-diagnostic-" .. pid .. "-", 1, true) then by[state] = (by[state] or 0) + 1 end
  end
  return by
end

--- Connections that the runtime has accepted: its open sessions and requests under way.
function M.connections(pid) return connections_by_state(pid)["03"] or 0 end

--- Waits until no connection to the target's diagnostics socket is left, accepted or not (a session may be opened on one that waits, long
--- after its client has left); an error when one stays.
function M.no_session(target, timeout_ms)
  M.wait_for("the end of all sessions on process " .. target.pid, timeout_ms or M.START_MS, function()
    local by = connections_by_state(target.pid)
    return not by["02"] and not by["03"]
  end)
end

--- Seconds of CPU that a process has used.
function M.cpu_seconds(pid)
  local stat = assert(require("lunette.proc").stat(pid))
  return (stat.user_ticks + stat.system_ticks) / require("lunette.proc").clock().ticks_per_s
end

--- Processors that a process may use.
function M.cores() return math.tointeger(tonumber(loop.exec({ argv = { "nproc" }, timeout_ms = 5000 }).stdout)) end

--- Words that put a command before all others on a busy machine; none where we may not.
function M.favoured(nice)
  local done = loop.exec { argv = { "nice", "-n", tostring(nice), "true" }, timeout_ms = 5000 }
  return done and done.code == 0 and done.stderr == "" and { "nice", "-n", tostring(nice) } or {}
end

-- ---- our own server ------------------------------------------------------------------------------------------------------------

local Server = {}
Server.__index = Server
Server.__close = function(self) self:stop() end

--- Starts `lunette serve` and waits until it answers.
---@param options { args: string[]?, environment: table?, stderr: string?, wrapper: string[]? }?   wrapper: words before the command
function M.server(options)
  options = options or {}
  local token = "live-test-token"
  local environment = { MCP_BEARER_TOKEN = token, STDERR = options.stderr }
  for name, value in pairs(options.environment or {}) do environment[name] = value end
  local argv = { table.unpack(options.wrapper or {}) }
  table.move({ M.lunette, "serve", "--http", "127.0.0.1:0" }, 1, 4, #argv + 1, argv)
  for _, word in ipairs(options.args or {}) do argv[#argv + 1] = word end
  local child = start_child(argv, environment)
  local port = M.wait_for("the server", M.START_MS, function()
    if child.exit then error("the server ended: " .. read(child.out) .. read(child.err)) end
    return tonumber(read(child.out):match("listens on https?://[^/]-:(%d+)/"))
  end)
  return setmetatable({ child = child, pid = child.pid, port = port, token = token }, Server)
end

--- What the server wrote to standard error.
function Server:log() return read(self.child.err) end

--- SIGTERM, and waits for the end. Returns the exit record.
function Server:stop(name)
  if self.gone then return self.child.exit end
  self.gone = true
  signal(self.pid, name or "TERM")
  local done = self.child.task:await(M.START_MS)
  if not done then
    signal(self.pid, "KILL")
    error("the server did not end after SIG" .. (name or "TERM"))
  end
  return done
end

local function sse_messages(text)
  local list = {}
  for data in text:gmatch("data: ?([^\r\n]+)") do list[#list + 1] = assert(json.decode(data)) end
  return list
end

--- One JSON-RPC request in a process of its own; returns result or nil, error, and all messages of the stream.
---@param method string
---@param params table
---@param options { timeout_ms: integer?, token: string?, progress: boolean?, capabilities: table? }?
function Server:request(method, params, options)
  options = options or {}
  params._meta = {
    ["io.modelcontextprotocol/protocolVersion"] = "2026-07-28",
    ["io.modelcontextprotocol/clientCapabilities"] = options.capabilities or {},
    ["io.modelcontextprotocol/clientInfo"] = { name = "lunette-live", version = "1" }, progressToken = options.progress and "p" or nil,
  }
  local body = json.encode { jsonrpc = "2.0", id = M.number(), method = method, params = params }
  local argv = {
    "curl", "-sS", "-N", "--noproxy", "*", "-m", tostring((options.timeout_ms or CALL_MS) // 1000), "-X", "POST",
    "-H", "Content-Type: application/json",
    "-H", "Accept: application/json, text/event-stream", "-H", "MCP-Protocol-Version: 2026-07-28", "-H", "Mcp-Method: " .. method,
    "-H", "Authorization: Bearer " .. (options.token or self.token), "--data-binary", "@-", ("http://127.0.0.1:%d/mcp"):format(self.port),
  }
  local name = params.name or params.uri or params.taskId
  if name then table.move({ "-H", "Mcp-Name: " .. name }, 1, 2, #argv + 1, argv) end
  local done, err = loop.exec { argv = argv, stdin = body, timeout_ms = options.timeout_ms or CALL_MS, max_output = 16 * 1024 * 1024 }
  if not done then return nil, err end
  if done.code ~= 0 then return nil, { message = ("curl ended with %s: %s"):format(tostring(done.code), done.stderr) } end
  local messages = done.stdout:sub(1, 1) == "{" and { assert(json.decode(done.stdout)) } or sse_messages(done.stdout)
  local last = messages[#messages]
  if not last then return nil, { message = "an empty answer" } end
  if last.error then return nil, last.error, messages end
  return last.result, nil, messages
end

--- tools/call; returns the envelope (and all messages), or nil, err.
function Server:call(tool, arguments, options)
  arguments = stretched(tool, arguments)
  options = setmetatable({ timeout_ms = options and options.timeout_ms or call_ms(arguments) }, { __index = options })
  local window = window_of(tool, arguments)
  local result, err, messages = self:request("tools/call", { name = tool, arguments = arguments }, options)
  local envelope = result and (result.structuredContent or assert(json.decode(result.content[1].text)))
  if window then M.window_ends(window, envelope) end
  if not result then return nil, err end
  conform.check(tool, envelope)
  return envelope, messages, result
end

--- Descriptors, threads and children of a process.
function M.usage(pid)
  local fds, tasks = fs.list(("/proc/%d/fd"):format(pid)) or {}, fs.list(("/proc/%d/task"):format(pid)) or {}
  local children = 0
  for _ in read(("/proc/%d/task/%d/children"):format(pid, pid)):gmatch("%d+") do children = children + 1 end
  return { fds = #fds, threads = #tasks, children = children }
end

--- The server's usage once it is at rest: idle worker threads end after some seconds, kept-alive connections with their clients.
function M.settled(server, before, timeout_ms)
  local last
  local ok = pcall(M.wait_for, "rest", timeout_ms or 2 * M.START_MS, function()
    last = M.usage(server.pid)
    return last.fds <= before.fds and last.threads <= before.threads and last.children <= before.children
  end)
  if not ok then
    error(("the server kept something: %d fds (was %d), %d threads (was %d), %d children (was %d)"):format(last.fds, before.fds,
      last.threads, before.threads, last.children, before.children), 2)
  end
end

-- ---- the command line ------------------------------------------------------------------------------------------------------------

--- `lunette call TOOL key=value … --json`; returns the envelope and the exit record. wrapper: words before it, such as nice.
function M.call(tool, arguments, timeout_ms, wrapper)
  local argv = { table.unpack(wrapper or {}) }
  table.move({ M.lunette, "call", tool, "--json" }, 1, 4, #argv + 1, argv)
  arguments = stretched(tool, arguments)
  local window = window_of(tool, arguments)
  for name, value in pairs(arguments) do
    argv[#argv + 1] = name .. "=" .. (type(value) == "table" and json.encode(value) or tostring(value))
  end
  local done, err = loop.exec { argv = argv, timeout_ms = timeout_ms or call_ms(arguments), max_output = 16 * 1024 * 1024 }
  if not done then error(tostring(err), 2) end
  local envelope = json.decode(done.stdout)
  if window then M.window_ends(window, envelope) end
  if not envelope then error(("lunette call %s: no JSON, exit %s: %s%s"):format(tool, tostring(done.code), done.stdout, done.stderr), 2) end
  conform.check(tool, envelope)
  return envelope, done
end

-- ---- assertions ------------------------------------------------------------------------------------------------------------------

local function show(value) return type(value) == "table" and json.encode(value) or tostring(value) end

function M.eq(expected, got, what)
  if show(expected) ~= show(got) then error(("%s: expected %s, got %s"):format(what or "value", show(expected), show(got)), 2) end
end

function M.near(expected, tolerance, got, what)
  if type(got) ~= "number" or math.abs(got - expected) > tolerance then
    error(("%s: expected %s +- %s, got %s"):format(what or "value", expected, tolerance, show(got)), 2)
  end
end

--- what: text, or the error that came instead of a value.
function M.ok(value, what)
  if not value then
    local plain = type(what) == "table" and not (getmetatable(what) or {}).__tostring
    error((plain and show(what) or tostring(what or "expected something")) .. ", got " .. show(value), 2)
  end
  return value
end

function M.find(list, fields)
  for _, item in ipairs(list or {}) do
    local fits = true
    for name, value in pairs(fields) do fits = fits and show(item[name]) == show(value) end
    if fits then return item end
  end
  return nil
end

--- Runs functions side by side; returns their results, or an error with what the first that failed said. Nothing of it is skipped when
--- something failed.
function M.together(functions)
  local tasks, results, failed = {}, {}, nil
  local failure = atomic(function(why)
    -- a skip is told by a function, see run.lua; what was too slow is tried again, whatever else it led to
    if failed == nil or type(failed) == "function" or why == M.TOO_SLOW then failed = why end
  end)
  for i, fn in ipairs(functions) do
    tasks[i] = loop.spawn(function()
      local ok, result = xpcall(fn, debug.traceback)
      results[i] = ok and result or nil
      if not ok then failure(result) end
      return true
    end)
  end
  for _, task in ipairs(tasks) do task:await() end
  if failed then error(failed, 2) end
  return results
end

--- Cases that wait more than they work, at the same time, as one case. They use the target of .NET 10.
function M.side_by_side(...)
  local cases = { ... }
  return function(skip)
    local built, why = M.build_target("net10.0")
    if not built then skip(why) end
    local todo = {}
    for i, case in ipairs(cases) do
      todo[i] = function()
        case(skip)
        return true
      end
    end
    M.together(todo)
  end
end

M.json, M.loop, M.fs, M.sys = json, loop, fs, sys
return M
