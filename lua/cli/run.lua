-- SPDX-License-Identifier: MIT
-- lunette run: starts a program under observation from its first managed instruction. The console is the program's own.
local app = require("lunette.app")
local config = require("lunette.config")
local fs = require("lunette.fs")
local handles = require("lunette.handles")
local ipc = require("lunette.ipc")
local json = require("lunette.json")
local launch = require("lunette.launch")
local loop = require("lunette.loop")
local options = require("lunette.options")
local outputs = require("lunette.output")
local proc = require("lunette.proc")
local render = require("lunette.render")
local scopes = require("lunette.scopes")
local site = require("lunette.site")
local sys = require("lunette.sys")
local text = require("lunette.text")

local M = {}

M.summary = "start a program and watch it from its first instruction"
M.help = [==[
usage: lunette run [OPTION...] [--] COMMAND [ARGUMENT...]
       lunette run --resume PID

Starts COMMAND so that its .NET runtime waits before the first managed instruction, arms a collector, and lets it go on. The console stays
the program's own, signals reach it, and its exit code is ours. When it has ended, the report is written to standard error.

  --collect KIND    what to collect: a kind of collect_events, or cpu or allocation of collect_sample (default startup)
  --duration S      watch for S seconds (default: until the program ends); the program runs on
  -o, --output FILE write the report there; JSON when the name ends in .json
  --json            write the report as JSON
  --with NAME=VALUE a parameter of the collector, as for lunette call collect_events; may be given several times
  --approve         run a collector that disturbs the program without a preview
  --site DIR        a folder of site scripts, above /etc/lunette and ~/.config/lunette; may be given several times
  --config FILE     a Lua configuration file
  --resume PID      let a runtime go on that waits at its own socket (started with DOTNET_DefaultDiagnosticPortSuspend=1)

The first .NET process is watched; others that the program starts run on at once. dotnet run, watch and test are seen through: the program
that they start is the first. Counters are collected once the runtime is up.

Exit code: the program's; 128 + N when signal N ended it; 126, 127 when it cannot be started; 2 when the call cannot be understood.
]==]

local EXIT_OK <const>, EXIT_ERROR <const>, EXIT_USAGE <const>, EXIT_DENIED <const>, EXIT_NOT_FOUND <const> = 0, 1, 2, 126, 127
local SIGNAL_BASE <const> = 128
local KNOWN <const> = {
  ["--collect"] = "value", ["--duration"] = "value", ["--output"] = "value", ["-o"] = "value", ["--json"] = "flag", ["--with"] = "list",
  ["--approve"] = "flag", ["--site"] = "list", ["--scripts"] = "list", ["--config"] = "value", ["--resume"] = "value",
}
local TO_THE_END_S <const> = 7 * 24 * 3600 -- without --duration: longer than any program that is started to be watched
local CONNECT_S <const> = 24 * 3600        -- a runtime may come late, as the child of a script does
local STDERR <const> = 2
local SIGNALS <const> = { INT = 2, TERM = 15, QUIT = 3, HUP = 1 }
local RESUME_MS <const> = 5000
-- Kinds that enable EventCounters: to do so while a runtime starts has hung some (dotnet/runtime 105682).
local AFTER_START <const> = {
  counters = true, db = true, kestrel = true, networking = true, requests = true, sweep = true, ["runtime-metrics"] = true,
}
-- Kinds that are no single session on one process.
local NEVER <const> = { distributed_trace = true, replica_counters = true }

local function complain(message)
  io.stderr:write("lunette run: ", message, "\n")
  return EXIT_USAGE
end

local function say(message) io.stderr:write("lunette run: ", message, "\n") end

-- ---- the command line -----------------------------------------------------------------------------------------------------------------

--- Splits the arguments into ours and the program's: the first word that is no option of ours begins the program's.
---@param args string[]
---@return string[] own, string[] command
function M.split(args)
  local own, i = {}, 1
  while i <= #args do
    local word = args[i]
    if word == "--" then
      i = i + 1
      break
    end
    if word:sub(1, 1) ~= "-" then break end
    own[#own + 1] = word
    local kind = KNOWN[word]
    if kind == "value" or kind == "list" then
      i = i + 1
      own[#own + 1] = args[i]
    end
    i = i + 1
  end
  return own, { table.unpack(args, i) }
end

local function arguments_of(opts)
  local arguments = {}
  for _, word in ipairs(opts.with) do
    local name, value = word:match("^([%w_]+)=(.*)$")
    if not name then return nil, ("%s is no NAME=VALUE"):format(text.quote(word)) end
    if name == "processId" or name == "kind" or name == "launch" or name == "traceFilePath" then
      return nil, name .. " is given by the command itself"
    end
    arguments[name] = value
  end
  return arguments
end

local TOOLS <const> = { "collect_events", "collect_sample" }

local function kinds_of_all()
  local names = {}
  for _, tool_name in ipairs(TOOLS) do
    local tool = app.tools[tool_name]
    for _, name in ipairs(tool.branch_names) do
      if not tool.branches[name].missing and not NEVER[name] then names[#names + 1] = name end
    end
  end
  return names
end

-- The tool that collects a kind, and its branch.
local function tool_of(kind)
  for _, name in ipairs(TOOLS) do
    local tool = app.tools[name]
    if tool.branches[kind] and not NEVER[kind] then return tool, tool.branches[kind] end
  end
  return nil
end

--- What to do, from the options; nil, why.
local function plan_of(opts, command)
  local kind = opts.collect or "startup"
  local tool, branch = tool_of(kind)
  if not tool then
    return nil, ("there is nothing called %s to collect.%s It is one of %s"):format(text.quote(kind),
      text.did_you_mean(kind, kinds_of_all()), table.concat(kinds_of_all(), ", "))
  end
  if branch.missing then return nil, ("%s cannot be collected: %s"):format(kind, branch.missing) end
  local seconds = opts.duration and math.tointeger(tonumber(opts.duration))
  if opts.duration and (not seconds or seconds < 1) then return nil, "--duration is a whole number of seconds, from 1" end
  local arguments, why = arguments_of(opts)
  if not arguments then return nil, why end
  arguments.kind, arguments.durationSeconds = kind, seconds or TO_THE_END_S
  local output = opts.output or opts.o
  return {
    tool = tool, kind = kind, arguments = arguments, command = command, seconds = seconds, output = output, approve = opts.approve,
    json = opts.json or (output and output:find("%.json$") ~= nil),
  }
end

-- ---- signals --------------------------------------------------------------------------------------------------------------------------

-- A key of the terminal reaches the program by itself, as it is in the same foreground group; any other signal is handed on. A program that
-- is held is let go, so that it can listen. Once it has ended, a signal ends us.
local function hand_on_signals(state)
  for name, number in pairs(SIGNALS) do
    loop.on_signal(name, function(by_terminal)
      local started = state.started
      if state.over then loop.exit(SIGNAL_BASE + number) end
      if not started then
        state.early = name
        return
      end
      if not by_terminal then started.child:kill(name) end
      started.port:release()
    end)
  end
end

-- ---- collecting -----------------------------------------------------------------------------------------------------------------------

--- as_long_as_program: nobody asked for a length, so a program that ends by itself ends its window in good order.
local function context(plan)
  return {
    principal = scopes.principal("cli", { "root" }), transport = "cli", era = "modern", in_task = true,
    state = { as_long_as_program = not plan.seconds },
    can = function() return false end, progress = function() end,
  }
end

local function ask(plan, arguments)
  local result, err = plan.tool:handle(context(plan), arguments)
  if not result then return nil, err end
  return json.decode(result.content[1].text, true)
end

-- What is wrong with the call, before a program is started for it; nil when nothing is.
local function fault_of(plan)
  local arguments = {}
  for name, value in pairs(plan.arguments) do arguments[name] = value end
  local prepared, err = plan.tool:prepare(context(plan), arguments)
  return not prepared and err.message or nil
end

-- The window was as long as the program: that it ended is no finding, and nobody asked for a length.
local function without_the_end(envelope)
  for _, payload in pairs(type(envelope.data) == "table" and envelope.data or {}) do
    local notes = type(payload) == "table" and payload.notes
    if notes then payload.requestedDuration = nil end
    for i = notes and #notes or 0, 1, -1 do
      if notes[i]:find("^ProcessEnded:") then table.remove(notes, i) end
    end
  end
end

-- The handle ends with this command: nothing in the report may send its reader there.
local function without_the_handle(envelope)
  envelope.handle, envelope.handleExpiresAt, envelope.handleExpiresInSeconds, envelope.hints = nil, nil, nil, json.array({})
  for _, signal in ipairs(envelope.signals or {}) do
    signal.nextAction = nil
    for _, bucket in ipairs(signal.buckets or {}) do bucket.handle = nil end
  end
  for _, payload in pairs(type(envelope.data) == "table" and envelope.data or {}) do
    for i, note in ipairs(type(payload) == "table" and payload.notes or {}) do
      note = note:gsub("all are behind the handle: query_snapshot[^.]*", "--with depth=Detail shows more")
      payload.notes[i] = note:gsub("behind the handle: query_snapshot[^.]*", "left out here: --with depth=Detail shows more")
    end
  end
end

local function collect(plan, process_id)
  local arguments = { processId = process_id }
  for name, value in pairs(plan.arguments) do arguments[name] = value end
  local envelope, err = ask(plan, arguments)
  if envelope and envelope.safetyApproval and plan.approve then
    arguments._dotnetDiagnostics = { acknowledgement = envelope.safetyApproval.requiredAcknowledgement }
    envelope, err = ask(plan, arguments)
  end
  if not envelope then return nil, err end
  if not plan.seconds then without_the_end(envelope) end
  without_the_handle(envelope)
  return envelope
end

-- ---- the report -----------------------------------------------------------------------------------------------------------------------

local function report(plan, envelope)
  local page
  if plan.json then
    page = json.encode(envelope) .. "\n"
  else
    page = render.answer(envelope, { style = not plan.output and sys.isatty(STDERR) })
  end
  if plan.output then
    local ok, err = outputs.write(plan.output, page)
    if ok then return end
    say(("%s cannot be written (%s); the report follows"):format(plan.output, tostring(err)))
  end
  io.stderr:write(page)
end

local function exit_code(exit)
  if not exit then return EXIT_ERROR end
  return exit.code or SIGNAL_BASE + exit.signal
end

-- ---- the command ----------------------------------------------------------------------------------------------------------------------

-- A window that cannot be opened by the call's own fault.
local function is_refused(envelope)
  return envelope.safetyApproval or envelope.error and (envelope.error.kind == "InvalidArgument" or envelope.error.kind == "NotSupported"
    or envelope.error.kind == "EventSourceProviderNotAllowed")
end

local function watch(plan, started)
  if AFTER_START[plan.kind] then
    local ok, err = started:resume()
    if not ok then say("the runtime did not answer that it goes on: " .. tostring(err)) end
  end
  return collect(plan, started.process_id)
end

-- Tells why the call was refused, and takes the program away that has not begun.
local function give_up(started, envelope)
  started.child:kill("KILL")
  started.ending:await()
  started.port:close()
  local approval = envelope.safetyApproval and " Repeat it with --approve to run it." or ""
  return complain((envelope.error and envelope.error.message or envelope.summary) .. approval)
end

local function not_started(err)
  say(err.message)
  if err.kind ~= "InvalidArgument" then return EXIT_ERROR end
  return err.message:find("may not be started", 1, true) and EXIT_DENIED or EXIT_NOT_FOUND
end

local function run(plan)
  local state = {}
  hand_on_signals(state)
  local started, err, ended = launch.start { argv = plan.command, console = "inherit", connect_s = CONNECT_S,
    on_start = function(self)
      state.started = self
      if state.early then self.child:kill(state.early) end
    end }
  if not started then
    if not ended then return not_started(err) end
    if not ended.exit then ended.ending:await() end
    state.over = true
    say(("%s; nothing was observed"):format((err.message:gsub("%.?%s*$", ""))))
    return exit_code(ended.exit)
  end
  local envelope, why
  local ok, bug = pcall(function() envelope, why = watch(plan, started) end)
  if not ok then why = bug end
  if envelope and is_refused(envelope) and started:is_held() and not started.exit then return give_up(started, envelope) end
  started.port:release() -- however it went, the program goes on
  if envelope and plan.output then report(plan, envelope) end -- as soon as it is there: the program may run on for long
  started.ending:await()
  state.over = true
  if envelope and not plan.output then report(plan, envelope) end
  if not envelope then say("nothing was observed: " .. tostring(why)) end
  local others = started:others()
  if others > 0 then
    say(("the program started %d more .NET process%s, which ran unobserved"):format(others, others == 1 and "" or "es"))
  end
  started.port:close()
  return exit_code(started.exit)
end

-- What the environment of a process says about waiting.
local function waits_at(pid)
  local environ = fs.read(("/proc/%d/environ"):format(pid), 1024 * 1024) or ""
  local own, ports = false, nil
  for line in environ:gmatch("[^%z]+") do
    own = own or line:find("^%w+_DefaultDiagnosticPortSuspend=0*1$") ~= nil
    ports = ports or line:match("^DOTNET_DiagnosticPorts=(.+)$")
  end
  return own, ports
end

-- Whether a runtime is past where it would wait: it starts its finalizer right behind that. Nil when its threads cannot be read.
local function is_running(pid)
  local finalizers = proc.thread_cpu(pid, ".NET Finalizer")
  return finalizers and #finalizers > 0
end

local function resume(word)
  local pid = math.tointeger(tonumber(word))
  if not pid or pid < 1 then return complain("--resume takes the id of a process") end
  if not proc.stat(pid) then
    say(("there is no process %d"):format(pid))
    return EXIT_ERROR
  end
  local ran = is_running(pid)
  local ok, err = ipc.resume(pid, RESUME_MS)
  if not ok then
    say(("process %d: %s"):format(pid, tostring(err)))
    return EXIT_ERROR
  end
  local own, ports = waits_at(pid)
  if ran then
    say(("process %d runs already: it does not wait%s"):format(pid, own and " any more" or ""))
  elseif own then
    say(("process %d goes on"):format(pid))
  elseif ports and not ports:lower():find("nosuspend", 1, true) then
    say(("process %d waits at DOTNET_DiagnosticPorts=%s: who listens there must let it go on"):format(pid, ports))
    return EXIT_ERROR
  else
    say(("process %d was not told to wait at its start (DOTNET_DefaultDiagnosticPortSuspend is not 1): it runs already"):format(pid))
  end
  return EXIT_OK
end

--- Runs the command.
---@param args string[]
---@return integer exit_code
function M.main(args)
  local own, command = M.split(args)
  local opts, why = options.parse(own, KNOWN)
  if not opts then return complain(why) end
  if opts.resume then
    if #command > 0 then return complain("--resume takes no command") end
    return resume(opts.resume)
  end
  if #command == 0 or command[1] == "" then return complain("what is to be run? lunette run --help tells more") end
  local cfg = config.load({ file = opts.config })
  if cfg.fatal then return complain(cfg.fatal) end
  app.load({ config = cfg, layers = site.layers(cfg, site.given(opts)) })
  loop.on_cleanup(handles.clear)
  local plan
  plan, why = plan_of(opts, command)
  why = why or fault_of(plan)
  if why then return complain(why) end
  return run(plan)
end

return M
