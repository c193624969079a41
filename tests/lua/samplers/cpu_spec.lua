-- SPDX-License-Identifier: MIT
-- cpu over recordings of threads that stand at known primitives (tests/data/recordings/README.md): each of 19 is in as many samples.
local collect_sample = require("tools.collect_sample")
local fs = require("lunette.fs")
local handles = require("lunette.handles")
local json = require("lunette.json")
local loop = require("lunette.loop")
local resources = require("lunette.resources")
local sampled = require("support.sampled")
local symbols = require("lunette.symbols")

local THREADS <const> = 19
local PHASES <const> = {
  "aggregationDuration", "captureDuration", "methodInstantiationResolutionDuration", "sessionDrainDuration", "sessionStartDuration",
  "sourceLineResolutionDuration", "symbolicationDuration", "totalDuration",
}
-- Threads by the label of their wait, as the target starts them. The main thread reads standard input, the gate of the pool sleeps; two
-- workers are idle.
local WAITS_10 <const> = {
  ["Monitor.Wait"] = 5, ["WaitHandle.Wait"] = 5, ["Thread.Sleep"] = 2, ["ThreadPool worker idle wait"] = 2, ["Stream.Read"] = 1,
  ["Monitor.Enter (contended)"] = 1, ["Thread.Join"] = 1,
}
local WAITS_8 <const> = { -- a contended lock has no frame of its own there
  ["Monitor.Wait"] = 5, ["WaitHandle.Wait"] = 5, ["Thread.Sleep"] = 2, ["ThreadPool worker idle wait"] = 2, ["Stream.Read"] = 1,
  ["Thread.Join"] = 1,
}

-- Samples by label, over rows of top-methods.
local function by_reason(methods)
  local sums = {}
  for _, row in ipairs(methods) do
    local split = row.selfSamples
    assert.equal(row.exclusiveSamples, split.runningSamples + split.waitingSamples + split.unknownSamples)
    assert.equal(row.waitReason ~= nil and row.exclusiveSamples or 0, split.waitingSamples, row.method)
    if row.waitReason and row.exclusiveSamples > 0 then sums[row.waitReason] = (sums[row.waitReason] or 0) + row.exclusiveSamples end
  end
  return sums
end

describe("samplers.cpu", function()
  it("does not say that none waits where a recording stops before its names", function()
    local packed, path = assert(fs.read(sampled.path("cpu"), 16 << 20)), os.tmpname()
    local crc, size, unpacked = string.unpack("<I4I4I4", packed, packed:find("PK\1\2", 1, true) + 16)
    local name, extra = string.unpack("<I2I2", packed, 27)
    local raw = packed:sub(31 + name + extra, 30 + name + extra + size)
    assert(fs.write_private(path, "\x1f\x8b\8\0\0\0\0\0\0\3" .. raw .. string.pack("<I4I4", crc, unpacked)))
    local whole = assert(loop.exec { argv = { "sh", "-c", 'gzip -dc < "$0"', path }, timeout_ms = 20000, max_output = 16 << 20 }).stdout
    os.remove(path)
    assert.equal(unpacked, #whole)
    assert(fs.write_private(path, whole:sub(1, #whole // 5)))
    local envelope = sampled.call { kind = "cpu", traceFilePath = path }
    os.remove(path)
    local samples, unnamed = envelope.summary:match("^The recording: (%d+) stack samples.* (%d+) of them have no name at their leaf")
    assert.is_true(tonumber(unnamed) > tonumber(samples) // 2, envelope.summary)
    assert.not_matches("None of them", envelope.summary)
    assert.not_matches("Beside waits", envelope.summary)
  end)

  it("says what its samples are, and splits them without calling any of them running", function()
    local data, envelope = sampled.capture("cpu", "stand")
    assert.same({ backend = "EventPipeSampleProfiler", kind = "StackFrequencyWithHeuristicWaits" }, data.evidence)
    local split = data.selfSamples
    assert.equal(0, split.runningSamples)
    assert.equal(data.totalSamples, split.waitingSamples + split.unknownSamples)
    assert.is_true(data.totalSamples > THREADS * 20)
    assert.matches("not whether they ran", envelope.summary, 1, true)
    assert.same({ "Unresolved: 1 of 1009 samples have a leaf without a name: code without metadata, or more than one method was at its "
      .. "address." }, data.notes)
    assert.is_nil(envelope.resolvedProcess)
  end)

  it("counts a leaf without a name as unknown, never as waiting", function()
    local _, envelope = sampled.capture("cpu", "stand")
    local methods, unresolved = sampled.ask(envelope.handle, "top-methods", { topN = 500 }).methods, 0
    for _, row in ipairs(methods) do
      if row.method:find("^0x%x+$") and row.exclusiveSamples > 0 then
        unresolved = unresolved + row.exclusiveSamples
        assert.is_nil(row.waitReason)
        assert.same({ 0, row.exclusiveSamples }, { row.selfSamples.waitingSamples, row.selfSamples.unknownSamples })
      end
    end
    assert.equal(1, unresolved)
  end)

  for name, wanted in pairs { stand = WAITS_10, ["net8-stand"] = WAITS_8 } do
    it("knows the waits of " .. name .. " by their leaf, and counts the thread that burns as unknown", function()
      local data, envelope = sampled.capture("cpu", name)
      local methods = sampled.ask(envelope.handle, "top-methods", { topN = 500 }).methods
      local each = sampled.row(methods, "Standing.Burn()").selfSamples.unknownSamples -- of one thread
      local counts, waiting = {}, 0
      for reason, samples in pairs(by_reason(methods)) do
        counts[reason] = (samples + each // 2) // each
        assert.near(counts[reason] * each, samples, 2, reason) -- a session may begin or end within a round of samples
        waiting = waiting + samples
      end
      assert.same(wanted, counts)
      assert.equal(data.selfSamples.waitingSamples, waiting)
      if name == "net8-stand" then assert.equal(each, sampled.row(methods, "MonitorEnter()").selfSamples.unknownSamples) end
    end)
  end

  -- Of the thread that worked in turns: how long it had in each method by its own clock (README of the recordings), in ms.
  it("finds hot methods of every kind with the time that they had, within 3 points", function()
    local known = {
      Loop = 484.8, Recursion = 214.7, GenericValue = 72.6, GenericReference = 73.1, Lambda = 148.2, Async = 173.1, Linq = 180.0,
      Regexes = 162.1, Native = 83.4,
    }
    local handle = select(2, sampled.capture("cpu", "cpu")).handle
    local rows = sampled.ask(handle, "top-methods", { rankBy = "inclusive_time", topN = 500 }).methods
    local all, seen = 0, sampled.row(rows, "Lunette.Target.Hot.Turn()").inclusiveMs
    for _, ms in pairs(known) do all = all + ms end
    for name, ms in pairs(known) do
      local row = assert(sampled.row(rows, ("Lunette.Target.Hot.%s(int64)"):format(name)), name)
      assert.near(100 * ms / all, 100 * row.inclusiveMs / seen, 3, name)
    end
  end)

  it("shows the method of a state machine by its author's name with foldAsync, and changes no count", function()
    local handle = select(2, sampled.capture("cpu", "cpu")).handle
    local plain = sampled.row(sampled.ask(handle, "top-methods", { topN = 100 }).methods, "Hot+<WorkAsync>d__25.MoveNext()")
    local folded = sampled.row(sampled.ask(handle, "top-methods", { topN = 100, foldAsync = true }).methods, "Hot.WorkAsync() [async]")
    assert.equal("Lunette.Target.Hot.WorkAsync() [async]", folded.method)
    assert.same({ true, true, plain.exclusiveSamples, plain.inclusiveSamples },
      { plain.asyncFolded, folded.asyncFolded, folded.exclusiveSamples, folded.inclusiveSamples })
  end)

  it("has eight phases; lines take no time when they are not asked for", function()
    local timings = sampled.capture("cpu", "stand", { resolveSourceLines = false }).timings
    local names = {}
    for name, value in pairs(timings) do
      names[#names + 1] = name
      assert.matches("^%d%d:%d%d:%d%d", value)
    end
    table.sort(names)
    assert.same(PHASES, names)
    assert.same({ "00:00:00", "00:00:00", "00:00:00", "00:00:00" }, { timings.sourceLineResolutionDuration,
      timings.methodInstantiationResolutionDuration, timings.sessionStartDuration, timings.captureDuration })
    assert.is_true(timings.totalDuration > timings.aggregationDuration)
  end)

  it("answers three hotspots at Summary, as many as asked for with topN, and all at Detail; the handle keeps topN", function()
    local data, envelope, artifact = sampled.capture("cpu", "stand")
    assert.same({ 3, 25 }, { #data.topHotspots, #artifact.hotspots })
    assert.is_true(#json.encode(envelope) < 16 * 1024)
    data, envelope, artifact = sampled.capture("cpu", "stand", { topN = 10 })
    assert.same({ 10, 10 }, { #data.topHotspots, #artifact.hotspots })
    assert.is_true(#json.encode(envelope) < 16 * 1024)
    assert.same({ 2, 2 }, { #sampled.capture("cpu", "stand", { topN = 2 }).topHotspots, #select(3, sampled.capture("cpu", "stand",
      { topN = 2 })).hotspots })
    assert.equal(25, #sampled.capture("cpu", "stand", { depth = "detail" }).topHotspots)
    assert.equal(25, #sampled.capture("cpu", "stand", { depth = "Raw" }).topHotspots)
  end)

  it("ranks hotspots by inclusive samples, without the root, each with its split and identity", function()
    local data = sampled.capture("cpu", "stand", { depth = "Detail" })
    local last = math.huge
    for _, spot in ipairs(data.topHotspots) do
      assert.is_true(spot.inclusiveSamples <= last and spot.inclusiveSamples >= spot.exclusiveSamples)
      assert.not_equal("<root>", spot.frame.method)
      last = spot.inclusiveSamples
    end
    assert.equal("System.Threading.Thread.StartCallback()", data.topHotspots[1].frame.method)
    local obey = sampled.row(data.topHotspots, "Monitor.Wait(").identity
    assert.same({ "Wait", 0, "System.Private.CoreLib", "System.Threading.Monitor" },
      { obey.methodName, obey.genericArity, obey.moduleName, obey.typeFullName })
    assert.equal(0x06, obey.metadataToken >> 24)
  end)

  it("tells of a recording without stack samples what is missing", function()
    local data, envelope = sampled.capture("cpu", "quiet")
    assert.same({ 0, {} }, { data.totalSamples, data.topHotspots })
    assert.matches("NoSamples: the recording has no stack samples", data.notes[1], 1, true)
    assert.matches("no stack was sampled", envelope.summary, 1, true)
    assert.is_nil(envelope.signals)
    for _, name in ipairs { "call-tree", "top-methods", "by-module", "by-namespace", "hot-path", "triage" } do
      assert.is_nil(select(2, sampled.ask(envelope.handle, name)).error, name)
    end
  end)

  it("leads to the views, and to blocked time when most samples are waits", function()
    local _, envelope = sampled.capture("cpu", "stand")
    local first = envelope.hints[1]
    assert.same({ "query_snapshot", "call-tree", 8, 200 }, { first.nextTool, first.suggestedArguments.view,
      first.suggestedArguments.maxDepth, first.suggestedArguments.maxNodes })
    local tools = {}
    for _, hint in ipairs(envelope.hints) do tools[#tools + 1] = hint.nextTool .. "/" .. tostring((hint.suggestedArguments or {}).kind) end
    assert.is_nil(table.concat(tools, " "):find("off_cpu", 1, true)) -- which no recording tells
    local live = require("support.hints_kit").of("cpu-sample", assert(handles.get(envelope.handle)).artifact, envelope.handle, 42)
    for _, hint in ipairs(live) do tools[#tools + 1] = hint.nextTool .. "/" .. tostring(hint.suggestedArguments.kind) end
    assert.is_truthy(table.concat(tools, " "):find("collect_sample/off_cpu", 1, true))
    assert.is_truthy(table.concat(tools, " "):find("collect_events/exceptions", 1, true))
  end)

  it("has the signal of concentration, which names no cause, and its namespaces in the resource only", function()
    local _, envelope = sampled.capture("cpu", "stand")
    assert.same({ 1, "cpu.self-time.concentration" }, { #envelope.signals, envelope.signals[1].signal })
    local signal = envelope.signals[1]
    assert.equal("Lunette.Target.Standing.Burn()", signal.buckets[1].key)
    assert.same({ envelope.handle, "samples", "top-methods" },
      { signal.buckets[1].handle, signal.buckets[1].unit, signal.nextAction.suggestedArguments.view })
    assert.matches("have Lunette.Target.Standing.Burn() as their leaf", signal.summary, 1, true)
    local registered = {}
    resources.register({ add_resource = function() end, add_template = function(t) registered[t.uriTemplate] = t end }, "")
    local template, fit = registered["signals://cpu-sample/{handle}"], sampled.ctx()
    local read = assert(template.read(fit, "signals://cpu-sample/" .. envelope.handle, { handle = envelope.handle }))
    local body = assert(json.decode(read.contents[1].text))
    assert.equal(envelope.handle, body.handle)
    local names = {}
    for _, s in ipairs(body.signals) do names[#names + 1] = s.signal end
    table.sort(names)
    assert.same({ "cpu.self-time.by-namespace", "cpu.self-time.concentration" }, names)
    handles.invalidate(envelope.handle)
    local gone, err = template.read(fit, "signals://cpu-sample/x", { handle = envelope.handle })
    assert.is_nil(gone)
    assert.equal("HandleNotFound", err.rpc_data.kind)
  end)

  it("closes the profile with its handle", function()
    local _, envelope, artifact = sampled.capture("cpu", "stand")
    handles.invalidate(envelope.handle)
    assert.has_error(function() artifact.profile:info() end)
  end)

  it("is what a watch of counters may take", function()
    local captures = require("lunette.captures")
    local declared = assert(captures.find("cpu-sample"))
    assert.equal("call-tree", declared.view)
    local real = collect_sample.prepare
    finally(function() collect_sample.prepare = real end)
    local asked
    collect_sample.prepare = function(self, ctx, raw, options)
      asked = raw
      return real(self, ctx, { kind = "cpu", traceFilePath = sampled.path("stand") }, options)
    end
    local result = assert(declared.capture(sampled.ctx(), { pid = 4711 }, {}))
    assert.same({ kind = "cpu", processId = 4711 }, asked)
    assert.equal("cpu-sample", result.handle.kind)
  end)

  it("keeps a capture whose symbols cannot be looked up", function()
    local modules, lines = symbols.modules, symbols.lines
    finally(function() symbols.modules, symbols.lines = modules, lines end)
    symbols.modules = function() return nil, { kind = "Cancelled", message = "the task was cancelled" } end
    symbols.lines = symbols.modules
    local data = sampled.capture("cpu", "stand", { depth = "Raw" })
    assert.is_true(#data.topHotspots > 0)
    assert.equal("SymbolsNotRead: the task was cancelled", data.notes[#data.notes])
  end)

  it("has no identity for names that no metadata holds, so that an answer keeps its room", function()
    local identity = require("samplers.identity")
    local function of(name, type_name) return identity.of({ kind = "managed", name = name, type = type_name, method = name, token = 1 }) end
    assert.equal("M", of("M", "N.T").methodName)
    assert.is_nil(of(("x"):rep(16384), "N.T"))
    assert.is_nil(of("M", ("x"):rep(16384)))
    assert.is_nil(of("M", "N.T`1[" .. ("x"):rep(16384) .. "]").genericTypeArguments)
    assert.equal("x", of("M", "N.T`1[x]").genericTypeArguments.type[1])
  end)
end)
