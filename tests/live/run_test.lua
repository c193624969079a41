-- SPDX-License-Identifier: MIT
-- lunette run: programs with a known load from their first instruction; console, exit code and signals stay theirs.
local h = require("harness")
local known = require("known_values")

local RUNTIMES <const> = { "net10.0", "net9.0", "net8.0" }
local RUN_MS <const> = 180000

local function built(skip, runtime)
  local ok, why = h.build_target(runtime)
  if not ok then skip(why) end
end

local function program(runtime) return h.targets .. "/" .. runtime .. "/lunette-target" end

--- `lunette run OWN… -- PROGRAM…` with its console in our hands; a TMPDIR of its own.
local function start(own, command)
  local dir = h.scratch()
  local argv = { "env", "TMPDIR=" .. dir, h.lunette, "run" }
  for _, word in ipairs(own) do argv[#argv + 1] = word end
  argv[#argv + 1] = "--"
  for _, word in ipairs(command) do argv[#argv + 1] = word end
  local self = h.start(argv, "observed")
  self.dir = dir
  return self
end

--- Waits for its end. Returns the exit record, what it wrote to standard output and to standard error.
local function finish(self)
  h.ok(self.child.task:await(RUN_MS), "lunette run ends")
  for _, name in ipairs(h.fs.list(self.dir)) do h.ok(not name:find("^lunette"), "no socket is left, got " .. name) end
  return self.child.exit, h.fs.read(self.child.out, 1000000) or "", h.fs.read(self.child.err, 1000000) or ""
end

local function report_of(path) return assert(h.json.decode(h.fs.read(path, 4000000))) end

local function exceptions(runtime)
  return function(skip)
    built(skip, runtime)
    local file = h.scratch() .. "/report.json"
    local run <close> = start({ "--collect", "exceptions", "--output", file }, { program(runtime), "throw", "20" })
    run:command("go", "^GOING")
    local did = known.did(run)
    run:command("quit")
    local exit, out, err = finish(run)
    h.eq(0, exit.code, "exit code")
    h.ok(out:find("^READY %d+ throw 0\nGOING\nDONE [^\n]+\nBYE\n$"), "the console is the program's: " .. out)
    h.eq("", err, "nothing of ours")
    local data = report_of(file).data.exceptions
    h.eq(did.thrown, data.totalExceptions, "exceptions")
    for type, n in pairs({
      ["System.InvalidOperationException"] = did.invalid, ["System.ArgumentException"] = did.argument,
      ["Lunette.Target.OrderException"] = did.order,
    }) do h.eq(n, h.ok(h.find(data.byType, { exceptionType = type }), type).count, type) end
    h.ok(not table.concat(data.notes, "\n"):find("ProcessEnded", 1, true), "its end is no finding: " .. table.concat(data.notes, "\n"))
    h.eq(384, h.fs.stat(file).mode & 511, "the file's mode") -- 0600
    local text = h.fs.read(file, 4000000)
    h.ok(not text:find("handle", 1, true), "nothing leads to the handle, which ended with the command: " .. text)
  end
end

local function crash(runtime)
  return function(skip)
    built(skip, runtime)
    local run <close> = start({ "--collect", "exceptions" }, { program(runtime), "crash", "3" })
    run:command("go", "^GOING")
    local exit, _, err = finish(run)
    h.eq(134, exit.code, "exit code of an abort")
    h.ok(err:find("\n4 exceptions (1 type)", 1, true), "the report follows the program's last words: " .. err)
    h.ok(err:find("Unhandled exception", 1, true) < err:find("4 exceptions", 1, true), "in this order")
  end
end

local function startup(runtime)
  return function(skip)
    built(skip, runtime)
    local file = h.scratch() .. "/report.json"
    local run <close> = start({ "-o", file, "--with", "depth=Detail" }, { program(runtime), "di" })
    run:command("go", "^GOING")
    local did = known.did(run)
    run:command("quit")
    h.eq(0, finish(run).code, "exit code")
    local data = report_of(file).data.startup
    h.eq(true, data.launched, "launched")
    h.ok(data.assemblies[1].name:find("^System.Private.CoreLib,"), "the first load")
    h.eq(did.resolved + 1, data.diEventCounts.ServiceResolved, "resolved services")
    h.eq(did.scoped, data.serviceProviders[1].scopedServices, "scoped services")
  end
end

local function counters(skip)
  built(skip, "net10.0")
  local run <close> = start({ "--collect", "counters", "--json" }, { program("net10.0"), "counters" })
  run:command("go", "^GOING")
  h.loop.sleep_ms(5500) -- 1.5 s until counters are asked for, then some intervals
  run:command("quit")
  local exit, _, err = finish(run)
  h.eq(0, exit.code, "exit code")
  local data = h.ok(h.json.decode(err), "JSON on standard error: " .. err).data.counters
  h.ok(#data.counters > 10, "counters")
end

--- The window lasts as long as the program: its end cuts nothing off. A program that is killed breaks its stream off.
local function collections(skip)
  built(skip, "net10.0")
  local function report(last)
    local run <close> = start({ "--collect", "gc", "--json", "--with", "depth=Detail" }, { program("net10.0"), "gcs", "5" })
    run:command("go", "^GOING")
    local did = known.did(run)
    last(run)
    local _, _, err = finish(run)
    return h.ok(h.json.decode(err:match("{.*}")), "JSON on standard error: " .. err).data.gc, did
  end
  local gc, did = report(function(run) run:command("quit") end)
  h.eq(did.gen0, gc.totalCollections, "collections of the whole run")
  h.eq({ "available", { "no-detected-loss" }, { "no-detected-loss" } },
    { gc.suspension.measurementStatus, gc.suspension.quality, gc.collectionQuality }, "nothing was cut off")
  h.ok(table.concat(gc.notes, "\n"):find("ProgramEnded:", 1, true), "how it ended: " .. table.concat(gc.notes, "\n"))
  gc = report(function(run)
    h.loop.sleep_ms(500) -- the runtime writes its buffers out about ten times a second
    assert(h.loop.exec { argv = { "kill", "-KILL", run.ready:match("READY (%d+)") }, timeout_ms = 5000 })
  end)
  h.eq({ "degraded", { "ended-early" } }, { gc.suspension.measurementStatus, gc.suspension.quality }, "a broken stream")
end

local function window_shorter_than_the_program(skip)
  built(skip, "net10.0")
  local file = h.scratch() .. "/report.txt"
  local run <close> = start({ "--duration", "1", "-o", file }, { program("net10.0"), "idle" })
  h.wait_for("the report", h.START_MS, function() return h.fs.stat(file) end)
  run:command("ping", "^PONG") -- it runs on
  run:command("quit")
  h.eq(0, finish(run).code, "exit code")
  h.ok(h.fs.read(file, 1000000):find("assemblies and %d+ modules loaded"), "the report")
end

local function signals(skip)
  built(skip, "net10.0")
  for name, code in pairs({ TERM = 143, INT = 130 }) do
    local run <close> = start({}, { program("net10.0"), "idle" })
    local pid = tonumber(run.ready:match("READY (%d+)"))
    run:signal(name) -- of lunette
    local exit, _, err = finish(run)
    h.eq(code, exit.code, "exit code after " .. name)
    h.ok(not h.alive(pid), "the program has ended")
    h.ok(err:find("assemblies and", 1, true), "the report comes all the same: " .. err)
  end
end

local function killed_program(skip)
  built(skip, "net10.0")
  local run <close> = start({}, { program("net10.0"), "idle" })
  assert(h.loop.exec { argv = { "kill", "-KILL", run.ready:match("READY (%d+)") }, timeout_ms = 5000 })
  local exit, _, err = finish(run)
  h.eq(137, exit.code, "exit code")
  h.ok(err:find("assemblies and", 1, true), "what came before is reported: " .. err)
end

local function children(skip)
  built(skip, "net10.0")
  local target = program("net10.0")
  local run <close> = start({}, { "sh", "-c", "\"$0\" idle; \"$0\" idle </dev/null; exit 9", target })
  run:command("quit")
  local exit, out, err = finish(run)
  h.eq(9, exit.code, "exit code")
  h.eq(2, select(2, out:gsub("READY", "")), "both ran, also the one that nobody watched")
  h.ok(err:find("started 1 more .NET process, which ran unobserved", 1, true), err)
end

local PROJECT <const> = [[
<Project Sdk="Microsoft.NET.Sdk">
  <PropertyGroup><OutputType>Exe</OutputType><TargetFramework>net10.0</TargetFramework></PropertyGroup>
</Project>
]]
-- Tells what it and its child see of the variable, and ends with 7.
local PROGRAM <const> = [[
using System;
using System.Diagnostics;
Console.WriteLine("own=" + Environment.GetEnvironmentVariable("DOTNET_DiagnosticPorts") + " args=" + string.Join(",", args));
var start = new ProcessStartInfo("sh") { UseShellExecute = false };
start.ArgumentList.Add("-c");
start.ArgumentList.Add("echo child=$DOTNET_DiagnosticPorts");
Process.Start(start)!.WaitForExit();
return 7;
]]

--- The SDK's own processes pass; the program that it builds and starts is watched, and does not see our port.
local function dotnet_run(skip)
  built(skip, "net10.0") -- so there is an SDK
  local dir = h.scratch()
  assert(h.fs.write_private(dir .. "/seen.csproj", PROJECT))
  assert(h.fs.write_private(dir .. "/Program.cs", PROGRAM))
  local script = "cd \"$0\"; export MSBUILDDISABLENODEREUSE=1 DOTNET_CLI_USE_MSBUILD_SERVER=0; "
    .. "exec \"$1\" run -o report.json -- dotnet run --property:UseSharedCompilation=false -- a b"
  local done = assert(h.loop.exec { argv = { "sh", "-c", script, dir, h.lunette }, timeout_ms = 300000 })
  h.eq(7, done.code, "exit code: " .. done.stdout .. done.stderr)
  h.ok(done.stdout:find("own= args=a,b\nchild=\n", 1, true), "the variable is as it was: " .. done.stdout)
  local data = report_of(dir .. "/report.json").data.startup
  h.eq("seen", data.assemblies[2].name:match("^[^,]+"), "the program's own assembly is the second one")
  h.eq(true, data.launched, "from its first instruction")
end

--- A key of the terminal reaches the program once, and the report still comes.
local function terminal(skip)
  built(skip, "net10.0")
  if not h.loop.exec { argv = { "script", "--version" }, timeout_ms = 5000 } then skip("script (util-linux) is not installed") end
  local dir = h.scratch()
  -- The trap: a shell that the key reaches too would end before it tells the code (dash does, bash does not).
  local inner = ("trap : INT; %s run %s idle; echo code $?"):format(h.lunette, program("net10.0"))
  local tty <close> = h.start({ "sh", "-c", "echo READY x; exec script -qefc \"$0\" /dev/null", inner }, "terminal", { TMPDIR = dir })
  tty:line("READY %d+ idle")
  tty:command("\3")
  tty:line("^code 130")
  local screen = h.fs.read(tty.child.out, 1000000)
  h.ok(screen:find("assemblies and", 1, true), "the report: " .. screen)
end

local function waits_at_its_own_socket(runtime)
  return function(skip)
    built(skip, runtime)
    local argv = { "env", "DOTNET_DefaultDiagnosticPortSuspend=1", "sh", "-c", "echo READY x; exec \"$0\" idle", program(runtime) }
    local target <close> = h.start(argv, "suspended target")
    h.wait_for("its socket", h.START_MS, function()
      local done = h.loop.exec { argv = { h.lunette, "ps", "--pids" }, timeout_ms = 10000 }
      return done and ("\n" .. done.stdout):find("\n" .. target.pid .. "\n", 1, true)
    end)
    h.ok(not (h.fs.read(target.child.out, 100000) or ""):find("idle", 1, true), "it waits")
    local done = assert(h.loop.exec { argv = { h.lunette, "run", "--resume", tostring(target.pid) }, timeout_ms = 10000 })
    h.eq(0, done.code, "exit code: " .. done.stderr)
    h.ok(done.stderr:find("goes on", 1, true), done.stderr)
    target:line("^READY %d+ idle")
    done = assert(h.loop.exec { argv = { h.lunette, "run", "--resume", tostring(target.pid) }, timeout_ms = 10000 })
    h.eq(0, done.code, "exit code: " .. done.stderr)
    h.ok(done.stderr:find("runs already: it does not wait any more", 1, true), "who goes on already: " .. done.stderr)
  end
end

local function waits_elsewhere(skip)
  built(skip, "net10.0")
  local dir = h.scratch()
  local argv = { "env", "DOTNET_DiagnosticPorts=" .. dir .. "/nobody", "sh", "-c", "echo READY x; exec \"$0\" idle", program("net10.0") }
  local target <close> = h.start(argv, "suspended target")
  h.wait_for("its socket", h.START_MS, function()
    local done = h.loop.exec { argv = { h.lunette, "ps", "--pids" }, timeout_ms = 10000 }
    return done and ("\n" .. done.stdout):find("\n" .. target.pid .. "\n", 1, true)
  end)
  local done = assert(h.loop.exec { argv = { h.lunette, "run", "--resume", tostring(target.pid) }, timeout_ms = 10000 })
  h.eq(1, done.code, "exit code")
  h.ok(done.stderr:find(dir .. "/nobody", 1, true), "who has to let it go on: " .. done.stderr)
end

local cases = {
  { "counters, once the runtime is up", counters }, { "collections of a whole run", collections },
  { "a window shorter than the program", window_shorter_than_the_program },
  { "signals are handed on", signals }, { "the program is killed", killed_program }, { "a script with two runtimes", children },
  { "Ctrl-C at a terminal", terminal },
  { "dotnet run is seen through", dotnet_run }, { "resume of one that waits elsewhere", waits_elsewhere },
}
for _, runtime in ipairs(RUNTIMES) do
  cases[#cases + 1] = { "known exceptions, " .. runtime, exceptions(runtime) }
  cases[#cases + 1] = { "a crash, " .. runtime, crash(runtime) }
  cases[#cases + 1] = { "known services, " .. runtime, startup(runtime) }
  cases[#cases + 1] = { "resume, " .. runtime, waits_at_its_own_socket(runtime) }
end
return cases
