-- SPDX-License-Identifier: MIT
-- collect_sample kind=cpu on live targets: hot methods of known share, threads that stand at known primitives, the exported trace, and what
-- can happen to a window.
local during = require("during")
local h = require("harness")

local RUNTIMES <const> = { "net10.0", "net9.0", "net8.0" }
local POINTS <const>, TRIES <const> = 3, 3
local ALL_OF_IT <const> = 0.9 -- of a processor, for a thread that always works
local WARM_MS <const> = 2000 -- until the hot methods are compiled for good
local HOT <const> = "Lunette.Target.Hot."
-- What `shares` calls each kind of work, and its method.
local PHASES <const> = {
  loop = "Loop", recursion = "Recursion", generic_value = "GenericValue", generic_reference = "GenericReference", lambda = "Lambda",
  async = "Async", linq = "Linq", regex = "Regexes", native = "Native",
}
local FILE <const> = "/tests/targets/Hot.cs" -- below wherever the target was built
local SOURCE <const> = h.source .. FILE
local TRACE <const> = "^traces/%d+T%d+Z%-%d+%-%w+%.nettrace$"
-- Threads of `stand 1` by the label of their wait; those in the kernel have a frame, or, where a stub was made for them, none.
local WAITS <const> = {
  ["Monitor.Wait"] = 5, ["WaitHandle.Wait"] = 5, ["Thread.Sleep"] = 2, ["Thread.Join"] = 1,
}

local function need(skip, runtime)
  local built, why = h.build_target(runtime)
  if not built then skip(why) end
end

local function sample(server, target, more)
  local arguments = { kind = "cpu", processId = target.pid, durationSeconds = 2 }
  for name, value in pairs(more or {}) do arguments[name] = value end
  return h.ok(server:call("collect_sample", arguments))
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

local function row(rows, text)
  for _, r in ipairs(rows) do
    if r.method:find(text, 1, true) then return r end
  end
  return nil
end

-- Lines of the target's source by the words of their comment.
local function hot_lines()
  local lines, n = {}, 0
  for line in h.fs.read(SOURCE, 1000000):gmatch("([^\n]*)\n") do
    n = n + 1
    local what = line:match("// the hot line of (.+)$")
    if what then lines[what] = n end
  end
  return lines
end

-- First and last line of a method of the target.
local function body_of(name)
  local n, first = 0, nil
  for line in h.fs.read(SOURCE, 1000000):gmatch("([^\n]*)\n") do
    n = n + 1
    if not first and line:find("^    private static [%w <>]*" .. name .. "%(") then first = n end
    if first and (line:find("^    }") or n == first and line:find("=>.*;$")) then return first, n end
  end
  error("no method " .. name)
end

-- The method of each kind of work has the line of its hottest address: within its body, in the program's own file.
local function lines_within(rows, runtime)
  for what, method in pairs(PHASES) do
    local source = h.ok(h.ok(row(rows, HOT .. method .. "("), method).identity.source, ("%s has a line on %s"):format(what, runtime))
    local first, last = body_of(method)
    h.eq(FILE, source.file:sub(-#FILE), what)
    local line = source.startLine
    h.ok(line > first and line < last, ("%s: line %d, not within %d..%d"):format(what, line, first, last))
  end
  local source = h.ok(row(rows, "Hot.Fibonacci("), "the method that recurs").identity.source
  h.eq({ FILE, (body_of("Fibonacci")) }, { source.file:sub(-#FILE), source.startLine }, "its line")
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

-- One window beside two questions for the shares: the envelope, what the target measured, and which part of a processor it had meanwhile.
local function measured(server, target, try)
  local had
  local envelope, told = during.both(target, function()
    return sample(server, target, { durationSeconds = 3, topN = 200, depth = "Raw" })
  end, function()
    target:command("shares", ("^SHARES %d "):format(2 * try - 1))
    local began, cpu = h.loop.now_ms(), h.cpu_seconds(target.pid)
    h.loop.sleep_ms(2000)
    had = (h.cpu_seconds(target.pid) - cpu) * 1000 / (h.loop.now_ms() - began)
    return target:command("shares", ("^SHARES %d "):format(2 * try))
  end)
  return envelope, told, had
end

-- The share that is furthest off, as text; nil when all are within POINTS.
local function outside(rows, known)
  local whole = h.ok(row(rows, HOT .. "Turn()"), "the thread").inclusiveMs
  for name, share in pairs(known) do
    local got = 100 * h.ok(row(rows, HOT .. PHASES[name] .. "("), name).inclusiveMs / whole
    if math.abs(got - share) > POINTS then return ("%s: %.1f %%, not %.1f %%"):format(name, got, share) end
  end
  return nil
end

--- Work of every kind of method, with the share of time that the target measured, and the lines that are hot. The runtime takes its samples
--- when the processors let it: where others have them, a window is measured again.
local function shares(runtime)
  return function(skip)
    need(skip, runtime)
    local target <close> = h.target(runtime, "cpu")
    local server <close> = h.server()
    h.loop.sleep_ms(WARM_MS)
    local envelope, told, rows, fault, had
    for try = 1, TRIES do
      envelope, told, had = measured(server, target, try)
      data_of(envelope)
      rows = ask(server, envelope, "top-methods", { rankBy = "inclusive_time", topN = 500 }).methods
      fault = outside(rows, shares_of(told))
      if not fault then break end
      print(("      outside the tolerance: %s; it had %.2f of a processor"):format(fault, had))
    end
    if fault and had < ALL_OF_IT then h.too_slow() end -- others worked: what it was given says nothing of the sampler
    h.eq(nil, fault, "shares on " .. runtime)
    local data = data_of(envelope)
    h.eq({ "EventPipeSampleProfiler", "StackFrequencyWithHeuristicWaits" }, { data.evidence.backend, data.evidence.kind }, "evidence")
    h.eq(0, data.selfSamples.runningSamples, "running")
    h.eq(data.totalSamples, data.selfSamples.waitingSamples + data.selfSamples.unknownSamples, "the split")
    local lines = hot_lines()
    for what, method in pairs { TightLoop = "Hot.TightLoop(", ["the lambda"] = "<InLambda>b__", WorkAsync = "<WorkAsync>d__" } do
      local r = h.ok(row(rows, method), method)
      h.ok(r.identity.moduleVersionId and r.identity.metadataToken, method .. " can be handed on: " .. h.json.encode(r.identity))
      local source = h.ok(r.identity.source, method .. " has a line")
      h.eq({ FILE, lines[what] }, { source.file:sub(-#FILE), source.startLine }, method)
    end
    lines_within(rows, runtime)
    h.ok(row(rows, "System.Text.RegularExpressions."), "the regex engine")
    h.ok(row(rows, "System.Linq.") or row(rows, "b__"), "LINQ, or what it calls")
    h.ok(row(ask(server, envelope, "top-methods", { foldAsync = true, topN = 500 }).methods, "Hot.WorkAsync() [async]"), "folded")
    h.no_session(target)
  end
end

--- One thread at each primitive: known waits are labelled on every runtime, the one that works is not, stubs without a name are unknown.
local function standing(runtime)
  return function(skip)
    need(skip, runtime)
    local target <close> = h.target(runtime, "stand", 1)
    target:line("^STANDING")
    h.loop.sleep_ms(500)
    local server <close> = h.server()
    local envelope = sample(server, target)
    local data = data_of(envelope)
    local rows = ask(server, envelope, "top-methods", { topN = 500 }).methods
    local each = h.ok(row(rows, "Standing.Burn()"), "the one that works").selfSamples.unknownSamples
    local threads = {}
    for _, r in ipairs(rows) do
      if r.waitReason then threads[r.waitReason] = (threads[r.waitReason] or 0) + r.selfSamples.waitingSamples end
    end
    for reason, n in pairs(WAITS) do h.near(n, 0.2, (threads[reason] or 0) / each, ("threads at %s on %s"):format(reason, runtime)) end
    h.ok((threads["Stream.Read"] or 0) / each > 1.8, "reads of standard input and of a pipe")
    h.ok((threads["Socket I/O"] or 0) / each > 1.8, "two or three of accept, poll and receive")
    h.ok((threads["ThreadPool worker idle wait"] or 0) > 0, "an idle worker")
    if runtime == "net10.0" then h.near(1, 0.2, (threads["Monitor.Enter (contended)"] or 0) / each, "a contended lock") end
    h.ok(data.selfSamples.waitingSamples > 0.75 * data.totalSamples, "most are waits")
    local triage, answer = ask(server, envelope, "triage")
    h.eq("unclassified", triage.verdict, "verdict")
    h.eq("caller-callee", answer.hints[1].suggestedArguments.view, "next")
    h.ok(h.json.encode(envelope.hints):find("off_cpu", 1, true), "waits are looked at by blocked time")
    h.ok(envelope.signals and envelope.signals[1].signal == "cpu.self-time.concentration", "the one that burns stands out")
    h.no_session(target)
  end
end

-- The files below a folder's traces.
local function traces_in(folder) return h.fs.list(folder .. "/traces") or {} end

--- An export has the lines that the capture found.
local function pprof_has_lines(server, envelope, root)
  local made = h.ok(server:call("export_profile", { handle = envelope.handle, format = "pprof" }).data, "a file for pprof")
  local text = h.loop.exec { argv = { "gzip", "-dc", root .. "/" .. made.path }, timeout_ms = 30000, max_output = 64000000 }.stdout
  h.ok(text:find("lunette-target!Lunette.Target.Burn.Spin()", 1, true), "the hot method")
  h.ok(text:find("/tests/targets/Loads.cs", 1, true), "its file")
end

--- The raw stream is kept when asked for, readable for its owner alone; read again it tells the same. Without the wish nothing is kept,
--- nor of a window that was not answered.
local function exported(skip)
  need(skip, "net10.0")
  local target <close> = h.target("net10.0", "burn", 1)
  local root = h.scratch()
  local server <close> = h.server { environment = { MCP_ARTIFACT_ROOT = root } }
  local envelope = sample(server, target, { exportTrace = true, topN = 10, nativeAotMapFile = "/no/such.map.xml" }) -- of NativeAOT only
  local live = data_of(envelope)
  pprof_has_lines(server, envelope, root)
  h.ok(live.exportedTracePath:find(TRACE), "a path below the root: " .. tostring(live.exportedTracePath))
  local file, folder = h.fs.stat(root .. "/" .. live.exportedTracePath), h.fs.stat(root .. "/traces")
  h.eq({ 384, 448 }, { file.mode & 511, folder.mode & 511 }, "0600 in 0700")
  local again = h.ok(server:call("collect_sample", { traceFilePath = live.exportedTracePath, topN = 10 }))
  local recorded = data_of(again)
  h.eq({ live.totalSamples, live.selfSamples }, { recorded.totalSamples, recorded.selfSamples }, "the same samples")
  h.eq(live.topHotspots, recorded.topHotspots, "the same methods, lines and ids")
  h.eq(1, #traces_in(root), "one file")
  h.eq(nil, data_of(sample(server, target)).exportedTracePath, "no path without the wish")
  h.eq(1, #traces_in(root), "and no file")
  local call = h.loop.spawn(function() return sample(server, target, { exportTrace = true, durationSeconds = 60 }) end)
  h.wait_for("a second file", h.START_MS, function() return #traces_in(root) == 2 end)
  call:cancel("the client goes away")
  h.no_session(target)
  h.wait_for("its end", h.START_MS, function() return #traces_in(root) == 1 end)
  h.eq("PONG", (target:command("ping", "^PONG"):match("^%u+")), "the target lives on")
end

local function nothing_happens(skip)
  need(skip, "net10.0")
  local target <close> = h.target("net10.0", "idle")
  h.loop.sleep_ms(2000)
  local server <close> = h.server()
  local envelope = sample(server, target)
  h.ok(data_of(envelope).selfSamples.waitingSamples > 0, "threads that wait")
  for _, r in ipairs(ask(server, envelope, "top-methods", { topN = 500 }).methods) do
    h.ok(not r.method:find("^Lunette%.Target") or r.exclusiveSamples == 0, "nothing of the program works: " .. r.method)
  end
  h.eq("unclassified", ask(server, envelope, "triage").verdict, "verdict")
end

local function target_exits(skip)
  need(skip, "net10.0")
  local target <close> = h.target("net10.0", "burn", 1)
  local server <close> = h.server()
  local envelope = during.both(target, function() return sample(server, target, { durationSeconds = 60 }) end, function()
    h.loop.sleep_ms(2000)
    target:command("quit", "^BYE")
  end)
  if envelope.error and envelope.error.kind == "ProcessExited" then h.too_slow() end -- its thread was there, its answer was not
  local data = data_of(envelope)
  h.ok(during.notes(data):find("ProcessEnded", 1, true), "the note: " .. during.notes(data))
  h.ok(data.totalSamples > 0, "what came before is kept")
  h.ok(during.notes(data):find("HandleEnded", 1, true), "the note on its handle: " .. during.notes(data))
  for _, hint in ipairs(envelope.hints) do
    h.ok((hint.suggestedArguments or {}).handle ~= envelope.handle, "nobody is sent to the handle: " .. h.json.encode(hint))
  end
end

--- Two windows on one target tell the same, and a third opens while they run.
local function two_at_once(skip)
  need(skip, "net10.0")
  local target <close> = h.target("net10.0", "burn", 2)
  local server <close> = h.server()
  local results = h.together {
    function() return sample(server, target) end, function() return sample(server, target) end,
    function() return h.ok(server:call("collect_sample", { kind = "allocation", processId = target.pid, durationSeconds = 2 })) end,
  }
  for i = 1, 2 do
    data_of(results[i])
    local rows = ask(server, results[i], "top-methods", { rankBy = "time", topN = 50 }).methods
    h.ok(row(rows, "Burn.Spin()").exclusiveMs > 2000, "two threads that burn: " .. h.json.encode(row(rows, "Burn.Spin()")))
  end
  h.ok(not results[3].error, "allocations beside: " .. h.json.encode(results[3].error or {}))
  h.no_session(target)
end

local function of_native_aot(skip)
  need(skip, "aot")
  local target <close> = h.target("aot", "idle")
  local server <close> = h.server()
  local envelope = sample(server, target, { cpuBackend = "EventPipe" })
  h.eq("UnsupportedRuntime", envelope.error.kind, "an explicit choice never falls back: " .. envelope.summary)
end

local THRESHOLD <const> = 10 -- percent of all processors

--- A watch takes a sample when the threshold is crossed.
local function triggered(skip)
  need(skip, "net10.0")
  local cores = h.cores()
  local target <close> = h.target("net10.0", "burn", cores, { go = false, wrapper = h.favoured(-10) })
  h.loop.sleep_ms(1600)
  local server <close> = h.server()
  local call = h.loop.spawn(function()
    return server:call("collect_events", { kind = "counters", processId = target.pid, triggerWhen = "cpu>" .. THRESHOLD,
      captureKind = "cpu-sample", windowSeconds = 60, sampleIntervalSeconds = 1 }, { timeout_ms = 120000 })
  end)
  h.wait_for("the watch", h.START_MS, function() return during.sessions(target) > 0 end)
  target:command("go", "^GOING")
  local began, cpu = h.loop.now_ms(), h.cpu_seconds(target.pid)
  local envelope = h.ok(call:await(120000))
  local had = 100 * (h.cpu_seconds(target.pid) - cpu) * 1000 / (h.loop.now_ms() - began) / cores
  h.ok(not envelope.error, "no error: " .. h.json.encode(envelope.error or {}))
  if not envelope.data.gatedCapture.tripped and had < THRESHOLD then h.too_slow() end
  local capture = h.ok(envelope.data.gatedCapture.captures[1], "a capture: " .. h.json.encode(envelope.data))
  h.eq("cpu-sample", capture.handleKind, h.json.encode(capture))
  local rows = ask(server, { handle = capture.handle }, "top-methods").methods
  h.ok(row(rows, "Burn.Spin()"), "what burned")
end

--- Samples and allocations in one batch, with their first page.
local function in_a_batch(skip)
  need(skip, "net10.0")
  local target <close> = h.target("net10.0", "sites", 100000)
  local server <close> = h.server()
  local requests = { { tool = "collect_sample", kind = "cpu" }, { tool = "collect_sample", kind = "allocation" } }
  local envelope, messages = server:call("collect_batch", { processId = target.pid, durationSeconds = 3, requests = requests },
    { progress = true })
  h.ok(envelope, "an answer: " .. h.json.encode(messages or {}))
  h.ok(not envelope.error, "no error: " .. h.json.encode(envelope.error or {}))
  local digest = h.ok(envelope.data.investigationDigest, "a digest")
  h.ok(digest.topCpuSelfTime[1] and #digest.topCpuSelfTime <= 5 and digest.topCpuWaitCategories[1], h.json.encode(digest))
  h.eq("System.String", digest.topAllocationTypes[1].typeName, "types")
  h.ok(digest.topAllocationCallsites[1].frame.method:find("String.Ctor", 1, true), "sites")
  h.eq(digest.hotPathDepth > 0, digest.hotPathLeaf ~= nil, "hot path, when a child holds half: " .. h.json.encode(digest))
  h.eq(nil, envelope.data.nativeContentionEvidence, "nothing of locks")
  requests[3] = { tool = "collect_sample", kind = "off_cpu" }
  local preview = h.ok(server:call("collect_batch", { processId = target.pid, durationSeconds = 3, requests = requests }))
  h.ok(preview.safetyApproval and not preview.data, "off_cpu makes the batch a high risk: " .. preview.summary)
  local last
  for _, message in ipairs(messages) do
    if message.method == "notifications/progress" then last = message.params.progress end
  end
  h.eq(100, last, "progress ends with 100")
end

--- lunette run samples a program from its first instruction to its end.
local function under_run(skip)
  need(skip, "net10.0")
  local out = h.scratch() .. "/report.json"
  local done = h.loop.exec { timeout_ms = 120000, argv = { "sh", "-c", 'sleep 3 | "$0" run --collect cpu -o "$1" -- "$2" burn 1 --now',
    h.lunette, out, h.targets .. "/net10.0/lunette-target" } }
  h.eq(0, done.code, done.stderr)
  local report = h.ok(h.json.decode(h.fs.read(out, 10000000)), "a report")
  h.ok(not report.error, "no error: " .. h.json.encode(report.error or {}))
  h.ok(report.data.cpu.totalSamples > 0, "samples")
  h.eq(nil, report.handle, "no handle, since it ended with the command")
end

local cases = {}
for _, runtime in ipairs(RUNTIMES) do
  cases[#cases + 1] = { "hot methods of known share, with their lines, " .. runtime, shares(runtime), alone = true }
  cases[#cases + 1] = { "threads at known primitives, " .. runtime, standing(runtime) }
end
table.move({
  { "the exported trace", exported }, { "nothing happens", nothing_happens }, { "the target exits in the window", target_exits },
  { "two at once", two_at_once }, { "NativeAOT", of_native_aot }, { "a watch takes a sample", triggered },
  { "in a batch, with a digest", in_a_batch }, { "lunette run --collect cpu", under_run },
}, 1, 8, #cases + 1, cases)
return cases
