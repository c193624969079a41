-- SPDX-License-Identifier: MIT
-- collect_events kind=startup: attached to a target that builds and uses a known container, and of programs that it launches itself.
local during = require("during")
local h = require("harness")

local RUNTIMES <const> = { "net10.0", "net9.0", "net8.0" }
local SECONDS <const> = 3
local ALL <const> = 5000
local CALL_MS <const> = 180000
local ALLOWED <const> = { Diagnostics__AllowProcessLaunch = "true" }

local function built(skip, runtime)
  local ok, why = h.build_target(runtime)
  if not ok then skip(why) end
end

local function program(runtime) return h.targets .. "/" .. runtime .. "/lunette-target" end

local function startup_of(envelope)
  h.ok(not envelope.error, "no error: " .. h.json.encode(envelope.error or {}))
  return envelope.data.startup
end

local function note(data, name)
  for _, text in ipairs(data.notes) do
    if text:find("^" .. name .. ":") then return text end
  end
  return nil
end

--- The simple names of the assemblies that were loaded, and the position of each.
local function names_of(rows)
  local at = {}
  for i, row in ipairs(rows) do at[row.name:match("^[^,]+")] = i end
  return at
end

--- `lunette call collect_events kind=startup launch=…` with a TMPDIR of its own; with `more` words behind it.
local function launch(spec, options)
  options = options or {}
  local dir = h.scratch()
  local argv = {
    "env", "TMPDIR=" .. dir, h.lunette, "call", "collect_events", "kind=startup",
    "durationSeconds=" .. (options.seconds or SECONDS) * h.slowness(),
    "depth=" .. (options.depth or "Detail"), "launch=" .. h.json.encode(spec), "--approve", "--json",
  }
  for _, word in ipairs(options.more or {}) do table.insert(argv, #argv - 1, word) end
  local done = assert(h.loop.exec { argv = argv, timeout_ms = CALL_MS, max_output = 16 * 1024 * 1024 })
  local answers = {}
  for line in done.stdout:gmatch("[^\n]+") do -- nothing but JSON may be there
    local answer = h.json.decode(line)
    h.ok(answer, "nothing but JSON on standard output: " .. line)
    answers[#answers + 1] = answer
  end
  for _, name in ipairs(h.fs.list(dir)) do h.ok(not name:find("^lunette"), "no socket is left, got " .. name) end
  return answers, done
end

local function gone(pid)
  h.wait_for("the end of process " .. pid, h.START_MS, function() return not h.alive(pid) end)
end

-- ---- attached ---------------------------------------------------------------------------------------------------------------------

local function known_services(data, did)
  h.eq(did.resolved + 1, data.diEventCounts.ServiceResolved, "what the program resolved, and the scope factory")
  h.eq(1, data.diEventCounts.ServiceProviderBuilt, "containers")
  h.eq(1, #data.serviceProviders, "containers")
  local c = data.serviceProviders[1]
  h.eq({ did.singletons, did.scoped, did.transients }, { c.singletonServices, c.scopedServices, c.transientServices }, "services by life")
  h.eq(did.singletons + did.scoped + did.transients, c.services, "services")
end

local function attached(runtime)
  return function(skip)
    built(skip, runtime)
    local target <close> = h.target(runtime, "di", nil, { go = false })
    local envelope, did = during.collect(target, { kind = "startup", durationSeconds = SECONDS, depth = "Detail" })
    local data = startup_of(envelope)
    h.eq(target.pid, data.processId, "processId")
    h.eq(false, data.launched, "launched")
    known_services(data, did)
    local loaded = names_of(data.assemblies)
    h.ok(loaded["Microsoft.Extensions.DependencyInjection"], "the assembly of the container is among those loaded")
    h.ok(not loaded["System.Private.CoreLib"], "what was there before the attach is not told")
    h.eq(#data.assemblies, data.assemblyLoadCount, "assemblies")
    h.eq(data.assemblyLoadCount, data.moduleLoadCount, "each has its module")
    h.ok(note(data, "PreAttach"):find("cannot be recovered", 1, true), "the note says what an attach misses")
    h.ok(note(data, "StaticConstructors"), "the note about static constructors")
    h.ok(data.cost.windowMs >= SECONDS * 1000 - 50, "the price of the window")
    h.no_session(target)
  end
end

local COMPARED <const> = {
  "processId", "assemblyLoadCount", "moduleLoadCount", "diEventCount", "diEventCounts", "diActivitySpan", "serviceProviders", "assemblies",
  "modules", "diEvents", "timeline",
}

local function recorded(runtime)
  return function(skip)
    built(skip, runtime)
    local target <close> = h.target(runtime, "di", nil, { go = false })
    local live, again, did = during.live_and_recorded("startup", target, SECONDS)
    known_services(live, did)
    for _, name in ipairs(COMPARED) do h.eq(live[name], again[name], name .. " of the recording") end
  end
end

local function two_at_once(skip)
  built(skip, "net10.0")
  local target <close> = h.target("net10.0", "di", nil, { go = false })
  local function collect()
    return h.call("collect_events", { kind = "startup", processId = target.pid, durationSeconds = SECONDS + 2, depth = "Detail" })
  end
  local results = h.together { collect, collect, function()
    during.stay_open(target, 2, 500) -- both know by then who the target is: these are their sessions
    return during.go(target)
  end }
  for i = 1, 2 do
    local data = startup_of(results[i])
    h.eq(results[3].resolved + 1, data.diEventCounts.ServiceResolved, "resolved services in window " .. i)
    h.eq(results[3].singletons, data.serviceProviders[1].singletonServices, "singletons in window " .. i)
  end
end

local function nothing_happens(skip)
  built(skip, "net10.0")
  local target <close> = h.target("net10.0", "idle")
  local data = startup_of(h.call("collect_events", { kind = "startup", processId = target.pid, durationSeconds = 1 }))
  h.eq({ 0, 0, 0 }, { data.assemblyLoadCount, data.moduleLoadCount, data.diEventCount }, "nothing was loaded or resolved")
  h.eq(nil, data.diActivitySpan, "no span")
  h.ok(note(data, "NoDependencyInjection"), "a note that there was no DI event")
end

local function ends_in_the_window(skip)
  built(skip, "net10.0")
  local target <close> = h.target("net10.0", "di", nil, { go = false })
  local envelope, did = during.collect(target, { kind = "startup", durationSeconds = 30, depth = "Detail" }, function(t)
    local done = during.go(t)
    h.loop.sleep_ms(500) -- the runtime writes its buffers out about ten times a second; what is in them dies with it
    t:kill()
    return done
  end)
  local data = startup_of(envelope)
  h.ok(note(data, "ProcessEnded"), "a note that the process ended: " .. table.concat(data.notes, "\n"))
  h.eq(did.singletons, data.serviceProviders[1].singletonServices, "what came before is kept")
end

-- ---- launched ---------------------------------------------------------------------------------------------------------------------

local function launched(runtime)
  return function(skip)
    built(skip, runtime)
    local answers, done = launch({ fileName = program(runtime), arguments = { "di", "--now", "--detached" } },
      { more = { "then", "query_snapshot", "handle=@", "view=timeline", "topN=" .. ALL } })
    local data = startup_of(answers[1])
    h.eq(true, data.launched, "launched")
    if not done.stderr:find("DONE ", 1, true) then h.too_slow() end
    local pid, did = done.stderr:match('READY (%d+) di'), {}
    for name, value in done.stderr:match("DONE ([^\"]+)"):gmatch("(%w+)=(%d+)") do did[name] = math.tointeger(tonumber(value)) end
    known_services(data, did)
    h.eq(tonumber(pid), data.processId, "processId")
    h.ok(data.assemblies[1].name:find("^System.Private.CoreLib,"), "the first load is the runtime's own library")
    local at = names_of(data.assemblies)
    h.ok(at["lunette-target"] == 2, "the program's own assembly comes next, before its Main ran")
    h.ok(at["Microsoft.Extensions.DependencyInjection"] > 2, "the container is loaded by Main")
    h.eq(h.fs.realpath(program(runtime) .. ".dll"), data.assemblies[2].path, "its path")
    h.ok(note(data, "PreAttach"):find("nothing came before", 1, true), "the note says that the start is whole")
    h.ok(note(data, "ProgramStopped"), "the program was ended")
    gone(data.processId)
    local timeline = answers[2].data.payload.timeline -- the handle outlives the program
    h.eq(data.assemblyLoadCount + data.moduleLoadCount + data.diEventCount, #timeline, "entries of the timeline")
    h.eq("assembly", timeline[1].category, "the first entry")
    local logged = done.stderr:match("[^\n]*READY[^\n]*")
    h.eq("launch", h.json.decode(logged).area, "the console is in our log")
  end
end

local function environment_and_folder(skip)
  built(skip, "net10.0")
  local answers, done = launch({
    fileName = "sh", arguments = { "-c", "echo in $PWD with $LUNETTE_TEST; exec \"$0\" idle --detached", program("net10.0") },
    workingDirectory = "/proc", environmentVariables = { LUNETTE_TEST = "a value" },
  }, { seconds = 1 })
  h.ok(done.stderr:find("in /proc with a value", 1, true), "folder and variable: " .. done.stderr)
  if not done.stderr:find("READY ", 1, true) then h.too_slow() end
  h.ok(startup_of(answers[1]).assemblyLoadCount > 5, "assemblies")
end

local function held_elsewhere(skip)
  built(skip, "net10.0")
  local answers = launch({
    fileName = program("net10.0"), arguments = { "idle", "--detached" },
    environmentVariables = { DOTNET_DiagnosticPorts = "/no/such/port" },
  }, { seconds = 1 })
  local data = startup_of(answers[1])
  h.eq(0, data.assemblyLoadCount, "nothing runs")
  h.ok(note(data, "HeldElsewhere"):find('("/no/such/port")', 1, true), "whom it waits for: " .. table.concat(data.notes, "\n"))
  gone(data.processId)
end

local function other_runtimes(skip)
  built(skip, "net10.0")
  local script = "\"$0\" idle & \"$0\" idle --detached & wait"
  local answers = launch({ fileName = "sh", arguments = { "-c", script, program("net10.0") } }, { seconds = 2 })
  local data = startup_of(answers[1])
  h.ok(note(data, "OtherRuntimes"):find("1 more .NET process,", 1, true), "the other one is counted: " .. table.concat(data.notes, "\n"))
  gone(data.processId)
end

local function ends_by_itself(skip)
  built(skip, "net10.0")
  local answers = launch({ fileName = program("net10.0"), arguments = { "idle" } }, { seconds = 20 }) -- at the end of its empty input
  local data = startup_of(answers[1])
  h.ok(note(data, "ProgramEnded"):find("with exit code 0", 1, true), "how it ended: " .. table.concat(data.notes, "\n"))
  h.ok(data.assemblyLoadCount > 5, "what it loaded is kept")
end

local function not_dotnet()
  local answers = launch({ fileName = "sh", arguments = { "-c", "echo some words; exit 42" } })
  h.eq("ProcessExited", answers[1].error.kind, "kind")
  h.ok(answers[1].error.message:find("exit code 42", 1, true), answers[1].error.message)
  h.ok(answers[1].error.message:find("some words", 1, true), answers[1].error.message)
  answers = launch({ fileName = "sleep", arguments = { "600" }, connectTimeoutSeconds = 1 })
  h.eq("NotADotnetProcess", answers[1].error.kind, "kind")
  answers = launch({ fileName = "/no/such/program" })
  h.eq("InvalidArgument", answers[1].error.kind, "kind")
  h.eq("launch.fileName", answers[1].error.detail, "detail")
end

local function fails_before_main(skip)
  built(skip, "net10.0")
  local dir = h.scratch()
  assert(h.loop.exec { argv = { "cp", program("net10.0"), dir .. "/app" }, timeout_ms = 5000 }) -- the host without its program
  local answers = launch({ fileName = dir .. "/app" })
  h.eq("ProcessExited", answers[1].error.kind, "kind")
  h.ok(answers[1].error.message:find("lunette%-target.dll"), "the host's own words: " .. answers[1].error.message)
end

--- The pid of a launched program, from the log.
local function logged_pid(child)
  return tonumber(h.wait_for("the program's READY", h.START_MS, function()
    if child.exit then error("the call ended early: " .. (h.fs.read(child.out, 1000000) or "")) end
    return (h.fs.read(child.err, 1000000) or ""):match("READY (%d+)")
  end))
end

local LONG <const> = { "kind=startup", "durationSeconds=60" }

--- A call that launches a program, in the background. Returns it, the pid of the program and the folder of its port.
local function long_call()
  local dir = h.scratch()
  local argv = { "env", "TMPDIR=" .. dir, "sh", "-c", "echo READY x; exec \"$0\" \"$@\"", h.lunette, "call", "collect_events" }
  for _, word in ipairs(LONG) do argv[#argv + 1] = word end
  argv[#argv + 1] = "launch=" .. h.json.encode { fileName = program("net10.0"), arguments = { "idle", "--detached" } }
  argv[#argv + 1] = "--approve"
  local call = h.start(argv, "launching call")
  return call, logged_pid(call.child), dir
end

local function no_port(dir)
  for _, name in ipairs(h.fs.list(dir)) do h.ok(not name:find("^lunette"), "no socket is left, got " .. name) end
end

local function cancelled(skip)
  built(skip, "net10.0")
  local call <close>, pid, dir = long_call()
  h.ok(h.alive(pid), "the program runs")
  call:signal("TERM")
  call.child.task:await(h.START_MS)
  h.ok(call.child.exit, "the call has ended")
  gone(pid)
  no_port(dir)
end

local function killed(skip)
  built(skip, "net10.0")
  local call <close>, pid = long_call()
  call:signal("KILL")
  gone(pid)
end

local function killed_program(skip)
  built(skip, "net10.0")
  local call <close>, pid, dir = long_call()
  assert(h.loop.exec { argv = { "kill", "-KILL", tostring(pid) }, timeout_ms = 5000 })
  call.child.task:await(h.START_MS)
  h.eq(0, call.child.exit.code, "the call succeeds")
  local page = h.fs.read(call.child.out, 1000000)
  h.ok(page:find("ProgramEnded: .*by signal 9"), "how it ended: " .. page)
  no_port(dir)
end

-- ---- launched over stdio --------------------------------------------------------------------------------------------------------------

local Client = {}
Client.__index = Client
Client.__close = function(self) self.process:kill() end

--- A client of `lunette serve --stdio` that can be asked, and answers `approve`.
local function client(environment, approve)
  local process = h.start({ "sh", "-c", "echo READY x; exec \"$0\" serve --stdio", h.lunette }, "stdio server", environment)
  local self = setmetatable({ process = process, seen = 1, approve = approve, asked = 0, results = {} }, Client)
  self:send { id = 1, method = "initialize", params = {
    protocolVersion = "2025-06-18", capabilities = { elicitation = {} }, clientInfo = { name = "lunette-live", version = "1" },
  } }
  self:answer(1)
  self:send { method = "notifications/initialized" }
  return self
end

function Client:send(message)
  message.jsonrpc = "2.0"
  local f = assert(io.open(self.process.child.fifo, "w"))
  f:write(h.json.encode(message), "\n")
  f:close()
end

--- Takes what has come: questions are answered, results kept by their id.
function Client:look()
  local n = 0
  for line in (h.fs.read(self.process.child.out, 16 * 1024 * 1024) or ""):gmatch("([^\n]*)\n") do
    n = n + 1
    if n > self.seen then
      self.seen = n
      local message = h.json.decode(line)
      h.ok(type(message) == "table" and message.jsonrpc, "nothing but messages on standard output: " .. line)
      if message.method == "elicitation/create" then
        self.asked = self.asked + 1
        self:send { id = message.id, result = { action = self.approve and "accept" or "decline",
          content = self.approve and { approve = true } or nil } }
      elseif message.id then
        self.results[message.id] = message.result or message.error
      end
    end
  end
end

function Client:answer(id)
  return h.wait_for("the answer to request " .. id, CALL_MS, function()
    self:look()
    return self.results[id]
  end)
end

local function launch_call(id, seconds)
  return { id = id, method = "tools/call", params = { name = "collect_events", arguments = {
    kind = "startup", durationSeconds = seconds,
    launch = { fileName = program("net10.0"), arguments = { "di", "--now", "--detached" } },
  } } }
end

local function over_stdio(skip)
  built(skip, "net10.0")
  local c <close> = client(ALLOWED, true)
  local before = h.usage(c.process.pid)
  c:send(launch_call(2, SECONDS * h.slowness()))
  local data = startup_of(c:answer(2).structuredContent)
  if not data.serviceProviders[1] then h.too_slow() end -- the program had not come so far
  h.eq(1, c.asked, "a person was asked")
  h.eq(true, data.launched, "launched")
  h.eq(60, data.serviceProviders[1].services, "services")
  h.ok((h.fs.read(c.process.child.err, 1000000) or ""):find("READY %d+ di"), "the console is in the log")
  h.ok(not h.fs.read(c.process.child.out, 1000000):find("DONE providers", 1, true), "and not on the protocol's stream")
  gone(data.processId)
  h.settled(c.process, before)
end

local function stdio_cancelled(skip)
  built(skip, "net10.0")
  local c <close> = client(ALLOWED, true)
  local before = h.usage(c.process.pid)
  c:send(launch_call(2, 60))
  local pid = h.wait_for("the program's READY", h.START_MS, function()
    c:look()
    return tonumber((h.fs.read(c.process.child.err, 1000000) or ""):match("READY (%d+) di"))
  end)
  c:send { method = "notifications/cancelled", params = { requestId = 2, reason = "no longer of interest" } }
  gone(pid)
  h.settled(c.process, before)
end

local function stdio_refused()
  local c <close> = client(ALLOWED, false)
  c:send(launch_call(2, SECONDS))
  local answer = c:answer(2).structuredContent
  h.eq(1, c.asked, "a person was asked")
  h.ok(answer.summary:find("declined", 1, true), "declined: " .. answer.summary)
  local not_allowed <close> = client({}, true)
  not_allowed:send(launch_call(2, SECONDS))
  h.eq("ProcessLaunchDisabled", not_allowed:answer(2).structuredContent.error.kind, "kind")
  h.eq(0, not_allowed.asked, "nobody was asked")
end

local function over_http()
  local server <close> = h.server { environment = ALLOWED }
  local envelope = h.ok(server:call("collect_events", { kind = "startup", launch = { fileName = "true" } }))
  h.eq("NotSupported", envelope.error.kind, "kind")
end

local cases = {
  { "two windows at once see the same", two_at_once }, { "nothing happens in the window", nothing_happens },
  { "the target is killed in the window", ends_in_the_window }, { "environment and folder of a launched program", environment_and_folder },
  { "a launched program that waits for somebody else too", held_elsewhere },
  { "a launched program starts another runtime", other_runtimes }, { "a launched program ends by itself", ends_by_itself },
  { "programs that are no .NET programs", not_dotnet }, { "a program that fails before Main", fails_before_main },
  { "a call that is told to end leaves nothing", cancelled }, { "a call that is killed leaves no program", killed },
  { "a launched program is killed in the window", killed_program }, { "launch over stdio", over_stdio },
  { "launch over stdio, cancelled half-way", stdio_cancelled }, { "launch over stdio, refused", stdio_refused },
  { "launch over HTTP is refused", over_http },
}
for _, runtime in ipairs(RUNTIMES) do
  cases[#cases + 1] = { "known services, attached, " .. runtime, attached(runtime) }
  cases[#cases + 1] = { "the recording has the same, " .. runtime, recorded(runtime) }
  cases[#cases + 1] = { "known services, launched, " .. runtime, launched(runtime) }
end
return cases
