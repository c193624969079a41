-- SPDX-License-Identifier: MIT
-- collect_sample kind=cpu by the kernel: hot methods of known share on every runtime, one stack of kernel, native and managed frames, all
-- views, threads that start within the window, windows that end early, a process that does nothing, and what `perf record` sees beside it.
local during = require("during")
local h = require("harness")

local POINTS <const>, LOADED_POINTS <const>, TRIES <const> = 3, 6, 3
local ALL_OF_IT <const> = 0.9 -- of a processor, for a thread that always works
local SECONDS <const>, HERTZ <const> = 3, 997
local WARM_MS <const> = 2000  -- until the hot methods are compiled for good
-- What `shares` calls each kind of work, and its method.
local PHASES <const> = {
  loop = "Loop", recursion = "Recursion", generic_value = "GenericValue", generic_reference = "GenericReference", lambda = "Lambda",
  async = "Async", linq = "Linq", regex = "Regexes", native = "Native",
}

local function need(skip, runtime)
  local built, why = h.build_target(runtime)
  if not built then skip(why) end
  local probe = require("lunette.proc").perf_probe(h.sys.pid)
  if not (probe and probe.cpu_clock.ok) then skip("perf_event_open is refused here") end
end

-- A sample by the kernel, with the acknowledgement that it asks for.
local function sample(server, target, more)
  local arguments = { kind = "cpu", processId = target.pid, durationSeconds = 2, cpuBackend = "Os" }
  for name, value in pairs(more or {}) do arguments[name] = value end
  local envelope = h.ok(server:call("collect_sample", arguments, { timeout_ms = 120000 }))
  if envelope.safetyApproval then
    envelope = h.ok(server:call("collect_sample", envelope.hints[1].suggestedArguments, { timeout_ms = 120000 }))
  end
  return envelope
end

local function data_of(envelope)
  h.ok(not envelope.error, "no error: " .. h.json.encode(envelope.error or {}))
  return envelope.data.cpu
end

local function ask(server, envelope, view, more)
  local arguments = { handle = envelope.handle, view = view }
  for name, value in pairs(more or {}) do arguments[name] = value end
  local answer = h.ok(server:call("query_snapshot", arguments))
  h.ok(not answer.error, view .. ": " .. h.json.encode(answer.error or {}))
  return answer.data, answer
end

local function row(rows, ...)
  for _, text in ipairs { ... } do
    for _, r in ipairs(rows) do
      if (r.method or r.frame.method):find(text, 1, true) then return r end
    end
  end
  return nil
end

-- A method of the target's class Hot, as CoreCLR and as NativeAOT call it.
local function hot(rows, name)
  for _, r in ipairs(rows) do
    if r.method:find("Lunette.Target.Hot." .. name .. "(", 1, true) then return r end
    if r.method:match("Lunette_Target_Hot__" .. name .. "$") then return r end
  end
  return nil
end

local function shares_of(line)
  local list, all = {}, 0
  for name, us in line:gmatch("([%w_]+)=(%d+)") do
    list[name] = tonumber(us)
    all = all + list[name]
  end
  for name, us in pairs(list) do list[name] = 100 * us / all end
  return list
end

-- Whether a server has rings of the kernel's events mapped: it samples.
local function samples_now(server)
  return (h.fs.read(("/proc/%d/maps"):format(server.pid), 16 << 20) or ""):find("[perf_event]", 1, true) ~= nil
end

-- Which part of a processor a target had from the first look to the last at which the server sampled for a call, and when they were: the
-- machine's other work changes, so that what it had before and after says nothing of the window.
local function had_while_sampled(server, target, call)
  local first, last
  while not call:done() do
    if samples_now(server) then
      last = { ms = h.loop.now_ms(), cpu = h.cpu_seconds(target.pid) }
      first = first or last
    end
    assert(h.loop.sleep_ms(h.POLL_MS))
  end
  if not first or last.ms == first.ms then return 0 end
  return (last.cpu - first.cpu) * 1000 / (last.ms - first.ms), first.ms, last.ms
end

-- One window within two questions for the shares: the envelope, what the target measured, and which part of a processor it had in it.
local function measured(server, target, more)
  target:command("shares", "^SHARES %d+ ")
  local call = h.loop.spawn(function() return sample(server, target, more) end)
  local had = had_while_sampled(server, target, call)
  local envelope = assert(call:await())
  target:command("ping", "^PONG")
  return envelope, target:command("shares", "^SHARES %d+ "), had
end

-- Samples of a kind of work. The asynchronous kind runs on threads of the pool while its method waits.
local function worked(rows, name)
  local found = name == "async" and row(rows, "<WorkAsync>d__", "WorkAsync_d__") or hot(rows, PHASES[name])
  return h.ok(found, name).inclusiveSamples
end

-- The share that is furthest off, as text; nil when all are within the points.
local function outside(rows, known, points)
  local whole, off, text = 0, points, nil
  for name in pairs(known) do whole = whole + worked(rows, name) end
  for name, share in pairs(known) do
    local got = 100 * worked(rows, name) / whole
    if math.abs(got - share) > off then off, text = math.abs(got - share), ("%s: %.1f %%, not %.1f %%"):format(name, got, share) end
  end
  return text
end

local VIEWS <const> = { "call-tree", "top-methods", "by-module", "by-namespace", "hot-path", "triage" }

local function every_view(server, envelope)
  for _, view in ipairs(VIEWS) do
    local data = ask(server, envelope, view)
    h.eq({ "LinuxPerf", "OsOnCpuSamples" }, { data.evidence.backend, data.evidence.kind }, view)
  end
  h.eq("on-cpu-observed", ask(server, envelope, "triage").verdict, "verdict")
  local top = ask(server, envelope, "top-methods", { rankBy = "running", topN = 1 }).methods[1]
  local edges = ask(server, envelope, "caller-callee", { rootMethodFilter = top.module .. "!" .. top.method })
  h.ok(edges.evidence, "caller-callee")
end

--- Work of every kind of method, with the share of time that the target measured.
local function shares(runtime)
  return function(skip)
    need(skip, runtime)
    local target <close> = h.target(runtime, "cpu")
    local server <close> = h.server()
    h.loop.sleep_ms(WARM_MS)
    local envelope, told, rows, fault, had
    for _ = 1, TRIES do
      envelope, told, had = measured(server, target,
        { durationSeconds = SECONDS, topN = 200, cpuBackend = runtime == "aot" and "Automatic" or "Os" })
      data_of(envelope)
      rows = ask(server, envelope, "top-methods", { rankBy = "inclusive", topN = 500 }).methods
      fault = outside(rows, shares_of(told), had < ALL_OF_IT and LOADED_POINTS or POINTS)
      if not fault then break end
      print(("      outside the tolerance: %s; it had %.2f of a processor"):format(fault, had))
    end
    -- Others worked: in a longer window the sampler's ends, and what the runtime does for it, weigh less.
    local function holds(value) return value or had < ALL_OF_IT and h.too_slow() end
    holds(not fault)
    h.eq(nil, fault, "shares on " .. runtime)
    local data = data_of(envelope)
    h.eq({ "LinuxPerf", "OsOnCpuSamples" }, { data.evidence.backend, data.evidence.kind }, "evidence")
    h.eq({ data.totalSamples, 0, 0 }, { data.selfSamples.runningSamples, data.selfSamples.waitingSamples, data.selfSamples.unknownSamples },
      "every sample ran")
    local ran = had * SECONDS * h.slowness() * HERTZ
    holds(math.abs(data.totalSamples - ran) <= ran * 0.25)
    h.near(ran, ran * 0.25, data.totalSamples, "samples of the time that it ran")
    local turn = hot(rows, "Turn")
    local threads = row(rows, "start_thread").inclusiveSamples
    h.ok(holds(threads >= 0.97 * data.totalSamples), ("stacks reach the thread's start: %d of %d"):format(threads, data.totalSamples))
    h.ok(holds(turn.inclusiveSamples >= 0.75 * data.totalSamples), "the thread that works")
    h.ok(row(rows, "memset"), "native code that managed code calls")
    local modules = ask(server, envelope, "by-module", { topN = 100 })
    h.ok(h.json.encode(modules):find("[kernel]", 1, true), "frames of the kernel")
    if runtime ~= "aot" then
      local loop = h.ok(row(rows, "Hot.TightLoop("), "the loop")
      h.ok(loop.identity.moduleVersionId and loop.identity.metadataToken and loop.identity.source, "it can be handed on, with its line")
    end
    h.eq("cpu.self-time.concentration", h.ok(envelope.signals, "signals")[1].signal, "what stands out")
    every_view(server, envelope)
    h.no_session(target)
  end
end

--- Two threads that burn begin when the window is open; with the end of the process the window ends.
local function later_threads(skip)
  need(skip, "net10.0")
  local target <close> = h.target("net10.0", "burn", 2, { go = false })
  local server <close> = h.server()
  local envelope = during.both(target, function() return sample(server, target, { durationSeconds = 60, topN = 20 }) end, function()
    h.wait_for("rings of the kernel's events", h.START_MS, function() return samples_now(server) end)
    target:command("go", "^GOING")
    h.loop.sleep_ms(2000)
    target:command("quit", "^BYE")
  end)
  if envelope.error and envelope.error.kind == "ProcessExited" then h.too_slow() end
  local data = data_of(envelope)
  h.ok(during.notes(data):find("ProcessEnded", 1, true), "the note: " .. during.notes(data))
  h.ok(row(data.topHotspots, "start_thread", "clone3"), "names of native code: " .. h.json.encode(data.topHotspots))
  h.ok(row(data.topHotspots, "Burn.Spin("), "what began later: " .. h.json.encode(data.topHotspots)) -- the handle ended with the process
  h.ok(data.totalSamples > 30, "samples: " .. data.totalSamples)
end

local function nothing_runs(skip)
  need(skip, "net10.0")
  local target <close> = h.target("net10.0", "idle")
  h.loop.sleep_ms(2000)
  local server <close> = h.server()
  local data = data_of(sample(server, target))
  h.ok(data.totalSamples < 300, "nearly nothing: " .. data.totalSamples) -- the runtime's own session beside it
  h.eq(0, data.selfSamples.waitingSamples, "who waits is not seen")
  h.no_session(target)
end

--- A client that goes away leaves nothing running.
local function cancelled(skip)
  need(skip, "net10.0")
  local target <close> = h.target("net10.0", "burn", 1)
  local server <close> = h.server()
  local call = h.loop.spawn(function() return sample(server, target, { durationSeconds = 60 }) end)
  h.wait_for("a session", h.START_MS, function() return during.sessions(target) > 0 end)
  call:cancel("the client goes away")
  h.no_session(target)
  h.eq("PONG", (target:command("ping", "^PONG"):match("^%u+")), "the target lives on")
  h.ok(data_of(sample(server, target)).totalSamples > 100, "the next window")
end

--- Without a diagnostics socket the kernel samples all the same, and names come from the map file that the runtime was asked to write.
local function without_socket(skip)
  need(skip, "net10.0")
  local target <close> = h.target("net10.0", "burn", 1,
    { environment = { DOTNET_EnableDiagnostics = "0", DOTNET_PerfMapEnabled = "1", TMPDIR = false } })
  local server <close> = h.server()
  local envelope = sample(server, target)
  local map <const> = ("/tmp/perf%%s-%d.map"):format(target.pid)
  for _, kind in ipairs { "", "info" } do h.fs.remove(map:format(kind)) end
  local data = data_of(envelope)
  h.ok(during.notes(data):find("ManagedNames", 1, true), during.notes(data))
  h.ok(row(ask(server, envelope, "top-methods", { topN = 20 }).methods, "Burn::Spin("), "the name that the map file has")
  local refused = h.ok(server:call("collect_sample", { kind = "cpu", processId = target.pid, durationSeconds = 1 }))
  h.eq("EndpointUnavailable", refused.error.kind, "the runtime's own sampler is not replaced")
end

-- Shares of leaf functions by `perf report` between two times of the monotonic clock, by name.
local function perf_shares(file, from_ms, to_ms)
  local out = h.loop.exec { argv = { "perf", "report", "-i", file, "--no-children", "--sort", "sym", "--stdio", "-g", "none", "--time",
    ("%.3f,%.3f"):format(from_ms / 1000, to_ms / 1000) }, timeout_ms = 60000 }
  local list = {}
  for share, name in (out and out.stdout or ""):gmatch("\n%s*([%d.]+)%%%s+%[[.k]%]%s+([^\n]+)") do
    list[name:gsub("%s+$", "")] = tonumber(share)
  end
  return list
end

-- perf record around what fn does. Gives its file and what fn gave.
local function perf_around(target, fn)
  local dir = h.scratch()
  local perf = h.loop.spawn(function()
    return h.loop.exec { argv = { "perf", "record", "-k", "CLOCK_MONOTONIC", "-e", "cpu-clock", "-F", tostring(HERTZ), "-o",
      dir .. "/perf.data", "-p", tostring(target.pid), "--", "sh", "-c", 'touch "$0/on"; while [ ! -e "$0/off" ]; do sleep 0.05; done',
      dir }, timeout_ms = 2 * h.START_MS }
  end)
  h.wait_for("perf", h.START_MS, function() return perf:done() or h.fs.stat(dir .. "/on") end)
  local ok, result = pcall(fn)
  assert(io.open(dir .. "/off", "w")):close()
  local done = assert(perf:await())
  h.ok(ok, result)
  h.eq(0, done.code, "perf record: " .. done.stderr)
  return dir .. "/perf.data", result
end

--- What perf record sees of the same thread at the same time, by the same clock: shares of the leaves agree.
local function beside_perf(skip)
  need(skip, "aot")
  local version = h.loop.exec { argv = { "perf", "--version" }, timeout_ms = 10000 }
  if not version or version.code ~= 0 then skip("no perf program") end
  local target <close> = h.target("aot", "cpu")
  local server <close> = h.server()
  -- perf attaches to the threads that are there: the pool's must be, which the asynchronous work starts
  h.wait_for("asynchronous work", h.START_MS, function()
    return tonumber(target:command("shares", "^SHARES %d+ "):match(" async=(%d+)")) > 0
  end)
  local file, seen = perf_around(target, function()
    local call = h.loop.spawn(function() return sample(server, target, { durationSeconds = 4, topN = 100 }) end)
    local had, from_ms, to_ms = had_while_sampled(server, target, call)
    return { envelope = assert(call:await()), had = had, from_ms = from_ms, to_ms = to_ms }
  end)
  local data, theirs = data_of(seen.envelope), perf_shares(file, seen.from_ms, seen.to_ms)
  h.ok(next(theirs), "perf has a report")
  local compared = 0
  for _, r in ipairs(ask(server, seen.envelope, "top-methods", { topN = 8 }).methods) do
    local share = theirs[r.method]
    if share then
      if math.abs(share - r.exclusivePercent) > POINTS and seen.had < ALL_OF_IT then h.too_slow() end -- few samples
      h.near(share, POINTS, r.exclusivePercent, r.method .. " by perf")
      compared = compared + 1
    end
  end
  h.ok(compared >= 4, ("functions that both name: %d of %d samples"):format(compared, data.totalSamples))
end

-- Every loop goes on in a better body after a moment.
local TAKEN_OVER <const> = { DOTNET_OSR_HitLimit = "1", DOTNET_TC_OnStackReplacement_InitialCounter = "1" }

--- A method that another body took over while it ran still has its caller, and is there once.
local function taken_over(runtime)
  return function(skip)
    need(skip, runtime)
    local target <close> = h.target(runtime, "cpu", nil, { environment = TAKEN_OVER })
    local server <close> = h.server()
    h.loop.sleep_ms(WARM_MS)
    local envelope = sample(server, target)
    data_of(envelope)
    local view = ask(server, envelope, "caller-callee", { rootMethodFilter = "Lunette.Target.Hot.Turn" })
    h.ok(view.focus.inclusiveSamples > 100, "samples of the loop: " .. view.focus.inclusiveSamples)
    local most = view.callers[1]
    h.ok(most.method:find("Lunette.Target.Threads+<>c__DisplayClass", 1, true), "who called it: " .. h.json.encode(view.callers))
    h.ok(most.inclusiveSamples >= 0.97 * view.focus.inclusiveSamples, "in all of its stacks: " .. h.json.encode(view.callers))
  end
end

local cases = {}
for _, runtime in ipairs { "net10.0", "net9.0", "net8.0", "aot" } do
  cases[#cases + 1] = { "hot methods of known share, " .. runtime, shares(runtime), alone = true }
end
table.move({
  { "threads that start later, a process that ends", later_threads }, { "nothing runs", nothing_runs },
  { "a client that goes away", cancelled }, { "without a diagnostics socket", without_socket },
  { "loops that go on in another body, net10.0", taken_over("net10.0") },
  { "loops that go on in another body, net9.0", taken_over("net9.0") },
  { "loops that go on in another body, net8.0", taken_over("net8.0") },
  { "beside perf record", beside_perf, alone = true },
}, 1, 8, #cases + 1, cases)
return cases
