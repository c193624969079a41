-- SPDX-License-Identifier: MIT
-- diff of sample captures: who may compare with whom, rows and their order, verdicts by evidence, per-second rates, journeys.
local compared = require("samplers.compared")
local diff = require("samplers.views.diff")
local handles = require("lunette.handles")
local json = require("lunette.json")
local sampled = require("support.sampled")

local function cpu(name) return select(2, sampled.capture("cpu", name or "stand")).handle end
local function allocation(name) return select(2, sampled.capture("allocation", name or "sites")).handle end

local function refused(handle, options, parameter)
  local _, envelope = sampled.ask(handle, "diff", options)
  assert.same({ "InvalidArgument", parameter }, { envelope.error and envelope.error.kind, envelope.error and envelope.error.detail })
end

-- A row as compared.rows gives it.
local function row(name, before, after)
  return { name = name, before = before, after = after, render = function() return { name = name }, before, after end }
end

-- A capture whose profile has these methods: name -> { exclusive, inclusive }.
local function made(methods, evidence, waiting)
  local samples, list = 0, {}
  for name, counts in pairs(methods) do
    samples = samples + counts[1]
    list[name] = { frame = 1, exclusive = counts[1], inclusive = counts[2] or counts[1] }
  end
  local profile = { methods = list }
  function profile.frame() return { kind = "native" } end
  function profile.top_methods(self)
    local rows = {}
    for name, counts in pairs(self.methods) do rows[#rows + 1] = { module = "m", method = name, exclusive = counts.exclusive } end
    return rows
  end
  function profile.diff(self, before)
    local rows, seen = {}, {}
    for _, side in ipairs { self, before } do
      for name in pairs(side.methods) do
        if not seen[name] then
          seen[name] = true
          rows[#rows + 1] = { module = "m", method = name, before = before.methods[name], after = self.methods[name] }
        end
      end
    end
    return rows
  end
  return {
    profile = profile, evidence = evidence, modules = {}, process_id = 42, started_unix_ms = 1764484800000, duration_ms = 10000, notes = {},
    info = { samples = samples, running = 0, waiting = waiting or 0, unknown = samples - (waiting or 0), threads = 1 },
  }
end

local MEASURED <const> = { backend = "LinuxPerf", kind = "OsOnCpuSamples" }
local FREQUENCY <const> = { backend = "EventPipeSampleProfiler", kind = "StackFrequencyWithHeuristicWaits" }

local function put(methods, evidence, waiting) return sampled.put("cpu-sample", made(methods, evidence, waiting)) end

describe("diff, who takes part", function()
  it("is one of baselineHandle and comparisonHandles, of the same kind, and no dispersion of a pair", function()
    local a, b, other = cpu(), cpu("net8-stand"), allocation()
    refused(a, {}, "baselineHandle")
    refused(a, { baselineHandle = b, comparisonHandles = { b } }, "baselineHandle")
    refused(a, { baselineHandle = b, mode = "dispersion" }, "mode")
    refused(a, { baselineHandle = other }, "baselineHandle")
    refused(a, { comparisonHandles = { other } }, "comparisonHandles")
    refused(a, { baselineHandle = a }, "baselineHandle")
    local _, envelope = sampled.ask(a, "diff", { baselineHandle = "00000000000000000000" })
    assert.equal("HandleNotFound", envelope.error.kind)
  end)

  it("compares native hits of the same kind, too", function()
    for _, kind in ipairs { "native-alloc-sample", "native-lock-contention-sample" } do
      local before = sampled.put(kind, made { ["malloc"] = { 10 }, ["calloc"] = { 10 } })
      local after = sampled.put(kind, made { ["malloc"] = { 30 }, ["calloc"] = { 10 } })
      local data = sampled.ask(after, "diff", { baselineHandle = before })
      assert.same({ kind, 2, "mixed" }, { data.kind, data.totalChanged, data.verdict })
      assert.same({ 50, 75 }, { data.changed[1].baseline.exclusivePercent, data.changed[2].baseline.exclusivePercent == 50 and 75 or 0 })
    end
    handles.clear()
  end)
end)

describe("diff, rows", function()
  it("are added, removed or changed, by what moved most", function()
    local rows = {
      row("new", nil, 3), row("newer", nil, 30), row("gone", 9, nil), row("same", 10, 10.4), row("up", 10, 20), row("down", 10, 2),
      row("slight", 100, 105), row("zero", 0, 4),
    }
    local parts = diff.sort(rows, 5)
    local function names(list)
      local out = {}
      for i, entry in ipairs(list) do out[i] = entry.row.name end
      return out
    end
    assert.same({ "newer", "new" }, names(parts.added))
    assert.same({ "gone" }, names(parts.removed))
    assert.same({ "up", "zero", "down", "slight" }, names(parts.changed))
    assert.same({ 10, 100, "up" }, { parts.changed[1].delta, parts.changed[1].pct, parts.changed[1].direction })
    assert.same({ 4, 100, "up" }, { parts.changed[2].delta, parts.changed[2].pct, parts.changed[2].direction })
    assert.same({ -8, -80, "down" }, { parts.changed[3].delta, parts.changed[3].pct, parts.changed[3].direction })
    assert.same({ 100, -100 }, { parts.added[1].pct, parts.removed[1].pct })
    assert.equal(3, #diff.sort(rows, 6).changed)
  end)

  it("make a verdict by rule: what grew, or is new above the median, is worse", function()
    local function verdict(rows) return (diff.judge(rows, diff.sort(rows, 5))) end
    assert.equal("regression", verdict { row("a", 10, 20), row("b", 10, 10) })
    assert.equal("improvement", verdict { row("a", 10, 5), row("b", 10, 10) })
    assert.equal("mixed", verdict { row("a", 10, 5), row("b", 10, 20) })
    assert.equal("no_change", verdict { row("a", 10, 10.1) })
    assert.equal("regression", verdict { row("a", 10, 10), row("n", nil, 11) })
    assert.equal("no_change", verdict { row("a", 10, 10), row("n", nil, 9) })
    assert.equal("improvement", verdict { row("a", 10, 10), row("b", 4, 4), row("g", 11, nil) })
    local value, note = diff.judge({ row("a", 10, nil), row("b", nil, 10) }, diff.sort({ row("a", 10, nil), row("b", nil, 10) }, 5))
    assert.equal("no_change", value)
    assert.matches("NoOverlap", note)
  end)

  it("of CPU captures have both sides, and shares of samples of their own", function()
    local before, after = cpu("net8-stand"), cpu()
    local data = sampled.ask(after, "diff", { baselineHandle = before, topN = 500, minDeltaPct = 0 })
    assert.same({ before, after, "cpu-sample", 0 }, { data.baselineHandle, data.currentHandle, data.kind, data.minDeltaPct })
    assert.same({ data.totalAdded, data.totalRemoved, data.totalChanged }, { #data.added, #data.removed, #data.changed })
    local enter, found = nil, nil
    for _, r in ipairs(data.added) do
      assert.is_nil(r.baseline)
      assert.same({ "added", 100, r.current.exclusivePercent }, { r.direction, r.deltaPct, r.deltaAbs })
      if r.key.symbol.methodFullName:find("Monitor.Enter_Slowpath", 1, true) then enter = r end
    end
    assert.same({ "System.Private.CoreLib", 55 }, { enter.key.symbol.module, enter.current.exclusiveSamples })
    assert.equal("Enter_Slowpath", enter.key.identity.methodName)
    for _, r in ipairs(data.removed) do
      assert.same({ "removed", -100 }, { r.direction, r.deltaPct })
      found = found or r.key.symbol.methodFullName:find("Standing.MonitorEnter()", 1, true)
    end
    assert.is_truthy(found)
    local few = sampled.ask(after, "diff", { baselineHandle = before, topN = 2, minDeltaPct = 0 })
    assert.same({ 2, data.totalAdded }, { #few.added, few.totalAdded })
  end)

  it("of the same recording do not change", function()
    local data = sampled.ask(cpu(), "diff", { baselineHandle = cpu(), minDeltaPct = 0 })
    assert.same({ 0, 0, 0 }, { data.totalAdded, data.totalRemoved, data.totalChanged })
  end)
end)

describe("diff, what the evidence allows", function()
  it("is inconclusive for EventPipe, incomparable for a mixture, and a verdict for samples of the kernel", function()
    local slow, fast = { hot = { 80 }, cold = { 20 } }, { hot = { 20 }, cold = { 80 } }
    local data, envelope = sampled.ask(put(slow, FREQUENCY), "diff", { baselineHandle = put(fast, FREQUENCY) })
    assert.equal("inconclusive", data.verdict)
    assert.matches("FrequencyEvidence", data.notes[1], 1, true)
    assert.is_nil(envelope.summary:find("hotspot", 1, true))
    for _, pair in ipairs { { MEASURED, FREQUENCY }, { FREQUENCY, MEASURED }, { nil, MEASURED } } do
      data, envelope = sampled.ask(put(slow, pair[1]), "diff", { baselineHandle = put(fast, pair[2]) })
      assert.equal("incomparable", data.verdict)
      assert.matches("MixedEvidence", data.notes[1], 1, true)
      assert.is_nil(envelope.summary:find("hotspot", 1, true))
    end
    data, envelope = sampled.ask(put(slow, MEASURED), "diff", { baselineHandle = put(fast, MEASURED) })
    assert.equal("mixed", data.verdict)
    assert.matches("Top hotspot share", envelope.summary, 1, true)
    assert.matches("pp", envelope.summary, 1, true)
    handles.clear()
  end)

  it("tells which share moved most, only of samples of the kernel", function()
    local before = put({ hot = { 25 }, cold = { 75 } }, MEASURED)
    local after = put({ hot = { 60 }, cold = { 40 } }, MEASURED)
    local _, envelope = sampled.ask(after, "diff", { baselineHandle = before })
    assert.is_truthy(envelope.summary:find("Top hotspot share grew: hot 25.0 % -> 60.0 % (+35.0 pp).", 1, true)
      or envelope.summary:find("Top hotspot share shrank: cold 75.0 % -> 40.0 % (-35.0 pp).", 1, true), envelope.summary)
    _, envelope = sampled.ask(after, "diff", { comparisonHandles = { before } })
    assert.matches("Top hotspot share", envelope.summary, 1, true)
    handles.clear()
  end)

  it("never makes a verdict of waits", function()
    local data = sampled.ask(put({ a = { 10 }, w = { 90 } }, FREQUENCY, 90), "diff",
      { comparisonHandles = { put({ a = { 90 }, w = { 10 } }, FREQUENCY, 10) } })
    assert.equal("inconclusive", data.verdict)
    handles.clear()
  end)
end)

describe("diff of allocations", function()
  it("compares bytes a second, and shows raw and per-second values of both sides", function()
    local before, after = allocation(), allocation()
    local entry = handles.get(after)
    entry.artifact.duration_ms = handles.get(before).artifact.duration_ms * 2 -- the same bytes in twice the time
    local data = sampled.ask(after, "diff", { baselineHandle = before })
    assert.same({ "improvement", 0, 0 }, { data.verdict, data.totalAdded, data.totalRemoved })
    local changed = data.changed[1]
    assert.same({ "down", -50 }, { changed.direction, changed.deltaPct })
    for _, side in ipairs { changed.baseline, changed.current } do
      assert.near(side.totalBytes / side.durationSeconds, side.bytesPerSecond, 0.002 * side.bytesPerSecond)
      assert.near(side.allocCount / side.durationSeconds, side.allocCountPerSecond, 0.01 * side.allocCountPerSecond + 0.01)
    end
    assert.equal(changed.baseline.totalBytes, changed.current.totalBytes)
    assert.is_string(changed.key.typeFullName)
    assert.matches("PerSecond", table.concat(data.notes, "\n"), 1, true)
    data = sampled.ask(before, "diff", { baselineHandle = after })
    assert.same({ "regression", 100 }, { data.verdict, data.changed[1].deltaPct })
  end)

  it("as a trend judges the rate of bytes, as replicas the spread", function()
    local a, b, c = allocation(), allocation(), allocation()
    handles.get(b).artifact.duration_ms = handles.get(b).artifact.duration_ms / 4
    local data = sampled.ask(a, "diff", { comparisonHandles = { b, c } })
    assert.same({ 3, "trend" }, { data.captureCount, data.mode })
    assert.equal("bytesPerSecond", data.metrics[1].name)
    for _, key in ipairs(data.keys) do assert.is_nil(key.dispersion) end
    data = sampled.ask(a, "diff", { comparisonHandles = { b, c }, mode = "dispersion" })
    assert.equal("dispersed", data.verdict)
    assert.is_table(data.keys[1].dispersion)
    data = sampled.ask(a, "diff", { comparisonHandles = { c }, mode = "dispersion" })
    assert.equal("uniform", data.verdict)
    handles.clear()
  end)
end)

describe("a journey of CPU captures", function()
  it("shows shares side by side; a trend is inconclusive, replicas are incomparable", function()
    local a, b = cpu("net8-stand"), cpu()
    local data = sampled.ask(b, "diff", { comparisonHandles = { a } })
    assert.same({ "inconclusive", 2, "cpu-sample" }, { data.verdict, data.captureCount, data.kind })
    local names = {}
    for _, m in ipairs(data.metrics) do names[#names + 1] = m.name end
    assert.same({ "samplesPerSecond", "threads", "runningPercent", "waitingPercent", "unknownPercent" }, names)
    local burn
    for _, key in ipairs(data.keys) do
      if key.key:find("Standing.Burn()", 1, true) then burn = key end
    end
    assert.near(5.46, burn.values[1], 0.1)
    assert.near(5.45, burn.values[2], 0.1)
    data = sampled.ask(b, "diff", { comparisonHandles = { a }, mode = "dispersion" })
    assert.equal("incomparable", data.verdict)
    assert.matches("FrequencyEvidence", table.concat(data.notes, "\n"), 1, true)
    assert.is_table(data.keys[1].dispersion or data.keys[2].dispersion or data.keys[3].dispersion)
  end)

  it("is compact above 32 KB, with the matrix behind a resource; below it is inline", function()
    local many, others = {}, {}
    for i = 1, 190 do
      many[("Some.Rather.Long.Namespace.TypeNumber%03d.WithAMethodOfItsOwn(class System.String,int32)"):format(i)] = { i }
      others[("Another.Rather.Long.Namespace.TypeNumber%03d.WithAMethodOfItsOwn(class System.String,int32)"):format(i)] = { i }
    end
    local a, b = put(many, FREQUENCY), put(others, FREQUENCY)
    local data = sampled.ask(b, "diff", { comparisonHandles = { a } })
    assert.matches("^journey://diff/", data.resourceUri)
    assert.same({ 2, 25 }, { data.counts.captures, #data.topKeyDeltas })
    local entry = assert(handles.get(data.resourceUri:match("[^/]+$")))
    local full = entry.artifact:journey_resource()
    assert.is_true(#json.encode(full) > 32 * 1024 and #full.keys == 380)
    assert.is_nil(sampled.ask(cpu(), "diff", { comparisonHandles = { cpu() } }).resourceUri)
    assert.is_table(sampled.ask(cpu(), "diff", { comparisonHandles = { cpu() }, depth = "compact" }).topMetricDeltas)
    handles.clear()
  end)

  it("has no running share where it was not measured", function()
    local of = compared.comparable("cpu-sample", made({ a = { 10 } }, FREQUENCY))
    assert.is_nil(of.metrics[3].value)
    assert.equal(0, compared.comparable("cpu-sample", made({ a = { 10 } }, MEASURED)).metrics[3].value)
  end)
end)
