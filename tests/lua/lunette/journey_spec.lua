-- SPDX-License-Identifier: MIT
-- view=diff of collection handles: who takes part, trend and dispersion, verdicts, and what happens to a large matrix.
local collect_events = require("tools.collect_events")
local gc_kit = require("support.gc_kit")
local handles = require("lunette.handles")
local journey = require("lunette.journey")
local json = require("lunette.json")
local kit = require("support.framework_kit")
local query_snapshot = require("tools.query_snapshot")
local resources = require("lunette.resources")
local sys = require("lunette.sys")
local views = require("lunette.view")

views.register(require("views.gc-events.diff"))
views.register(require("views.gc-datas.diff"))

local function ctx()
  local made = kit.ctx()
  made.transport = "cli"
  return made
end

local function collect(kind, name)
  local envelope = kit.call(collect_events, { kind = kind, traceFilePath = gc_kit.RECORDINGS .. name .. ".nettrace" }, ctx())
  assert.is_nil(envelope.error)
  return envelope.handle
end

local function diff(handle, more, kind)
  local arguments = { handle = handle, view = "diff" }
  for k, v in pairs(more) do arguments[k] = v end
  local envelope = kit.call(query_snapshot, arguments, ctx())
  if envelope.data then
    local ok, faults = kit.conforms(envelope, nil, kind or "gc-events", "diff")
    assert.is_true(ok, faults)
  end
  return envelope.data and envelope.data.payload, envelope
end

local function refused(handle, more, parameter)
  local _, envelope = diff(handle, more)
  assert.same({ "InvalidArgument", parameter }, { envelope.error and envelope.error.kind, envelope.error and envelope.error.detail })
end

local function metric(payload, name)
  for _, row in ipairs(payload.metrics or payload.topMetricDeltas) do
    if row.name == name then return row end
  end
end

--- A comparable with one metric for the worse, one without a side, and keys.
local function comparable(a, b, keys)
  return { metrics = { { name = "a", unit = "ms", value = a, worse = "up" }, { name = "b", value = b } }, keys = keys }
end

local function compare(list, opts) return journey.compare("k", list, opts or {}, { "n" }) end

describe("journey.compare", function()
  it("trend: delta from the first to the last, a direction only beyond minDeltaPct, no dispersion", function()
    local full = compare({ comparable(100, 1), comparable(1, 2), comparable(110, 1.04) }, { minDeltaPct = 5 })
    assert.same({ 10, 10, "up" }, { full.metrics[1].delta, full.metrics[1].deltaPct, full.metrics[1].direction })
    assert.same({ 0.04, 4, "flat" }, { full.metrics[2].delta, full.metrics[2].deltaPct, full.metrics[2].direction })
    assert.is_nil(full.metrics[1].dispersion)
    assert.same({ "regression", 3, { 100, 1, 110 } }, { full.verdict, full.captureCount, full.metrics[1].values })
    assert.equal("3 captures; a moved most: from 100 ms to 110 ms (+10.0 %).", full.headline)
    assert.equal("flat", compare({ comparable(100, 1), comparable(110, 1) }, { minDeltaPct = 11 }).metrics[1].direction)
  end)

  it("trend: improvement, no_change, mixed, inconclusive", function()
    assert.equal("improvement", compare({ comparable(10, 0), comparable(5, 9) }).verdict)
    assert.equal("no_change", compare({ comparable(10, 0), comparable(10, 9) }).verdict)
    assert.equal("inconclusive", compare({ comparable(nil, 1), comparable(5, 9) }).verdict)
    local function two(a, b) return { metrics = { { name = "a", value = a, worse = "up" }, { name = "b", value = b, worse = "down" } } } end
    assert.equal("mixed", compare({ two(1, 1), two(2, 2) }).verdict)
    assert.equal("regression", compare({ two(1, 2), two(1, 1) }).verdict)
  end)

  it("what a capture does not know is null, not 0, and has no delta; from 0 there is no percentage", function()
    local full = compare { comparable(nil, 0), comparable(5, 3), comparable(6, 0 / 0) }
    assert.same({ json.null, 5, 6 }, full.metrics[1].values)
    assert.is_nil(full.metrics[1].delta)
    assert.same({ 0, 3, json.null }, full.metrics[2].values)
    local from_zero = compare({ comparable(0, 0), comparable(5, 0) }).metrics[1]
    assert.same({ 5, "up" }, { from_zero.delta, from_zero.direction })
    assert.is_nil(from_zero.deltaPct)
  end)

  it("dispersion: one of four verdicts, with a dispersion in each row", function()
    local function of(list) return compare(list, { mode = "dispersion" }) end
    local alike = of { comparable(100, 1, { x = 1 }), comparable(101, 9, { x = 1 }), comparable(99, 1, { x = 2 }) }
    assert.equal("uniform", alike.verdict)
    assert.same({ 99, 101, 100, 100 }, { alike.metrics[1].dispersion.min, alike.metrics[1].dispersion.max,
      alike.metrics[1].dispersion.median, alike.metrics[1].dispersion.mean })
    assert.near(0.8165, alike.metrics[1].dispersion.stdDev, 0.0001)
    assert.near(0.0082, alike.metrics[1].dispersion.coefficientOfVariation, 0.0001)
    assert.is_nil(alike.metrics[1].delta)
    assert.is_table(alike.keys[1].dispersion)
    local apart = of { comparable(100, 1), comparable(100, 1), comparable(300, 1) }
    assert.same({ "dispersed", 2 }, { apart.verdict, apart.metrics[1].dispersion.outlierIndex })
    assert.equal("no_overlap", of({ comparable(1, 1, { x = 1 }), comparable(1, 1, { y = 1 }) }).verdict)
    assert.equal("incomparable", of({ comparable(1), comparable(nil, 2) }).verdict)
    assert.is_nil(of({ comparable(5, 0), comparable(5, 0) }).metrics[1].dispersion.outlierIndex)
  end)
end)

describe("query_snapshot view=diff", function()
  it("needs exactly one of the two handle options, and comparisonHandles for dispersion", function()
    local a, b = collect("gc", "gcs"), collect("gc", "bgc")
    refused(a, {}, "baselineHandle")
    refused(a, { baselineHandle = b, comparisonHandles = { b } }, "baselineHandle")
    refused(a, { baselineHandle = b, mode = "dispersion" }, "mode")
    refused(a, { comparisonHandles = { a } }, "comparisonHandles")
    refused(a, { comparisonHandles = {} }, "comparisonHandles")
    refused(a, { baselineHandle = collect("datas", "datas") }, "baselineHandle")
    local _, envelope = diff(a, { baselineHandle = "NOSUCHHANDLE00000000" })
    assert.equal("HandleNotFound", envelope.error.kind)
  end)

  it("gc-events: the v2 names, both captures in order, unknown pauses as null", function()
    local before, after, none = collect("gc", "gcs"), collect("gc", "datas"), collect("gc", "throw")
    local payload, envelope = diff(after, { baselineHandle = before })
    local share = metric(payload, "fullySuspendedPercent.v2")
    assert.same({ 3.181, 52.024, "up" }, { share.values[1], share.values[2], share.direction })
    assert.is_true(payload.verdict == "regression" or payload.verdict == "mixed")
    assert.matches("fullySuspended", json.encode(payload.metrics))
    assert.matches(before .. ", " .. after, payload.notes[1])
    assert.matches("^" .. payload.verdict .. ": 2 captures", envelope.summary)
    local unknown = metric((diff(none, { baselineHandle = before })), "maxFullySuspendedTimeMs.v2")
    assert.same({ json.null, nil }, { unknown.values[2], unknown.delta })
    local keys = {}
    for _, row in ipairs(payload.keys) do keys[row.key] = row.values end
    assert.same({ { 9, 61 }, { 15, json.null } }, { keys.gen0, keys["reason:Induced"] })
  end)

  it("orders a trend by time, whoever is asked", function()
    local early, late = collect("gc", "gcs"), collect("gc", "datas")
    local a, b = diff(early, { comparisonHandles = { late } }), diff(late, { comparisonHandles = { early } })
    assert.same(a.metrics, b.metrics)
    assert.same(3.181, metric(a, "fullySuspendedPercent.v2").values[1])
  end)

  it("compact has counts and the topN metrics that moved most", function()
    local a, b = collect("gc", "gcs"), collect("gc", "datas")
    local payload = diff(b, { baselineHandle = a, depth = "compact", topN = 2 })
    assert.same({ captures = 2, metrics = 9, keys = 5 }, payload.counts)
    assert.same({ 2, 2 }, { #payload.topMetricDeltas, #payload.topKeyDeltas })
    assert.is_true(math.abs(payload.topMetricDeltas[1].deltaPct) >= math.abs(payload.topMetricDeltas[2].deltaPct))
    assert.is_nil(payload.resourceUri)
    assert.is_nil(payload.metrics)
  end)

  it("gc-datas: dispersion over replicas", function()
    local a, b, none = collect("datas", "datas"), collect("datas", "datas"), collect("datas", "gcs")
    local payload = diff(a, { comparisonHandles = { b }, mode = "dispersion" }, "gc-datas")
    assert.same({ "uniform", "dispersion", 0 },
      { payload.verdict, payload.mode, metric(payload, "throughputCostPercentMean").dispersion.stdDev })
    assert.is_nil(metric((diff(a, { comparisonHandles = { none }, mode = "dispersion" }, "gc-datas")), "heapCountChanges").dispersion)
  end)

  it("a journey of 32 KiB and more is compact, with the full matrix at journey://diff/{handle}", function()
    local function entry(n)
      local keys = {}
      for i = 1, n do keys[("key %05d with some length"):format(i)] = i end
      return handles.put { kind = "gc-events", artifact = { keys = keys }, origin = "trace" }
    end
    local function of(artifact) return comparable(1, 2, artifact.keys) end
    local small = assert(journey.view(entry(10), { baselineHandle = entry(10).id }, of))
    assert.same({ 10, nil }, { #small.keys, small.resourceUri })
    local large = assert(journey.view(entry(2000), { baselineHandle = entry(2000).id, topN = 3 }, of))
    assert.same({ 3, 2000 }, { #large.topKeyDeltas, large.counts.keys })
    assert.matches("^journey://diff/%w+$", large.resourceUri)
    local registry = require("lunette.registry").new()
    resources.register(registry, sys.home)
    local def, vars = registry.match_template(large.resourceUri)
    local read = assert(def.read(kit.ctx(), large.resourceUri, vars))
    assert.equal(2000, #json.decode(read.contents[1].text).keys)
    local _, err = def.read(kit.ctx { scopes = { "read-counters" } }, large.resourceUri, vars)
    assert.same({ "PermissionDenied", true }, { err.rpc_data.kind, err.message:find("eventpipe", 1, true) ~= nil })
  end)
end)
