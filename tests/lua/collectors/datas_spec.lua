-- SPDX-License-Identifier: MIT
-- collect_events(kind="datas"): how Server GC adapts, out of recordings and out of payloads made by hand; its views.
local collect_events = require("tools.collect_events")
local gc_kit = require("support.gc_kit")
local handles = require("lunette.handles")
local history = require("collectors.datas.history")
local json = require("lunette.json")
local kit = require("support.framework_kit")
local payloads = require("collectors.datas.payloads")
local query_snapshot = require("tools.query_snapshot")
local views = require("lunette.view")

for _, name in ipairs { "overview", "tuning", "samples", "gen2" } do views.register(require("views.gc-datas." .. name)) end

local function ctx()
  local made = kit.ctx()
  made.transport = "cli"
  return made
end

local function collect(name, more)
  local arguments = { kind = "datas", traceFilePath = gc_kit.RECORDINGS .. name .. ".nettrace" }
  for k, v in pairs(more or {}) do arguments[k] = v end
  local envelope = kit.call(collect_events, arguments, ctx())
  assert.is_nil(envelope.error)
  local ok, faults = kit.conforms(envelope, collect_events)
  assert.is_true(ok, faults)
  return envelope, envelope.data.datas
end

local function view(envelope, name, more)
  local arguments = { handle = envelope.handle, view = name }
  for k, v in pairs(more or {}) do arguments[k] = v end
  local answer = kit.call(query_snapshot, arguments, ctx())
  assert.is_nil(answer.error)
  local ok, faults = kit.conforms(answer, nil, "gc-datas", name)
  assert.is_true(ok, faults)
  return answer.data.payload, answer
end

local SAMPLE <const>, TUNING <const>, FULL <const> = "<I2I8I4I4I4I4I8I4", "<I2I2I2I2I8I8fffI2fI4I1I2I2I2I2I1", "<I2I2I8fI4I4fI4fI4f"

local function sample(index, budget) return SAMPLE:pack(1, index, 90906, 25076, 1500, 2500, 28932020, budget or 67108864) end
local function tuning(index, heaps, cost)
  return TUNING:pack(1, heaps, 30, 1, index, 28932020, cost or 27.5, 27.5, 25.5, 1, 0, 4, 1, 0, 3, 0, 0, 2)
end
local function full(index, heaps, cost) return FULL:pack(1, heaps, index, cost, 3, 13, 17.3, 11, 66.3, 0, 25.6) end

describe("collectors.datas.payloads", function()
  it("reads the three events of .NET 9 and later", function()
    assert.same({ kind = "sample", version = 1, gc_index = 4, elapsed_us = 90906, pause_us = 25076, soh_msl_us = 1500, uoh_msl_us = 2500,
      soh_stable_bytes = 28932020, gen0_budget_bytes = 67108864 }, payloads.read("SizeAdaptationSample", sample(4)))
    assert.same({ kind = "tuning", version = 1, new_heaps = 2, max_heaps = 30, min_heaps = 1, gc_index = 4, soh_stable_bytes = 28932020,
      cost_percent = 27.5 }, payloads.read("SizeAdaptationTuning", tuning(4, 2)))
    assert.same({ kind = "gen2", version = 1, new_heaps = 2, gc_index = 18, cost_percent = 25.5 },
      payloads.read("SizeAdaptationFullGCTuning", full(18, 2, 25.5)))
    assert.same({ 38, 56, 44 }, { #sample(1), #tuning(1, 1), #full(1, 1, 1) }) -- as the runtime sends them
  end)

  it("reads the two of .NET 8", function()
    assert.same({ kind = "sample", version = 1, gc_index = 3, elapsed_us = 34970, pause_us = 19989, msl_us = 7 },
      payloads.read("HeapCountSample", ("<I2I8I8I8I8"):pack(1, 3, 34970, 19989, 7)))
    assert.same({ kind = "tuning", version = 1, new_heaps = 1, gc_index = 3, cost_percent = 57.5 },
      payloads.read("HeapCountTuning", ("<I2I2I8ffffff"):pack(1, 1, 3, 57.5, 57.5, 0, 0, 0, 0)))
  end)

  it("takes a longer payload, refuses a shorter one at every length, and knows no other event", function()
    assert.equal(4, payloads.read("SizeAdaptationSample", sample(4) .. "more").gc_index)
    for n = 0, 37 do assert.same("short", select(2, payloads.read("SizeAdaptationSample", sample(4):sub(1, n)))) end
    for n = 0, 15 do assert.same("short", select(2, payloads.read("SizeAdaptationFullGCTuning", full(1, 1, 1):sub(1, n)))) end
    assert.same({}, { payloads.read("CommittedUsage", ("x"):rep(42)) })
    assert.same("short", select(2, payloads.read("SizeAdaptationTuning", nil)))
  end)
end)

describe("collectors.datas.history", function()
  it("begins with the heaps that the last collection ran with, then with what the last decision made them", function()
    local h = history.new(100)
    h:collected(1)
    h:dynamic(1, "SizeAdaptationTuning", tuning(4, 2))
    h:collected(1) -- the collection of that decision ran with one still
    h:dynamic(2, "SizeAdaptationTuning", tuning(5, 2))
    h:dynamic(3, "SizeAdaptationFullGCTuning", full(6, 4, 10))
    h:dynamic(4, "SizeAdaptationTuning", tuning(7, 3))
    assert.same({ 1, 2, true }, { h.tuning[1].before, h.tuning[1].new_heaps, h.tuning[1].is_transition })
    assert.same({ 2, 2, false }, { h.tuning[2].before, h.tuning[2].new_heaps, h.tuning[2].is_transition })
    assert.same({ 2, 4, true }, { h.gen2[1].before, h.gen2[1].new_heaps, h.gen2[1].is_transition })
    assert.same({ 4, 3 }, { h.tuning[3].before, h.tuning[3].new_heaps })
    assert.same({ 3, 1, 4 }, { h.stats.changes, h.stats.heaps.min, h.stats.heaps.max })
  end)

  it("does not invent a change at the first decision when nothing is known of before", function()
    local h = history.new(100)
    h:dynamic(1, "SizeAdaptationTuning", tuning(4, 2))
    assert.same({ 2, false, 0 }, { h.tuning[1].before, h.tuning[1].is_transition, h.stats.changes })
  end)

  it("caps rows and goes on counting; no number (NaN) is no cost", function()
    local h = history.new(2)
    for i = 1, 5 do
      h:dynamic(i, "SizeAdaptationSample", sample(i, i * 100))
      h:dynamic(i, "SizeAdaptationTuning", tuning(i, i, i == 5 and 0 / 0 or i * 10))
    end
    h:dynamic(6, "SizeAdaptationSample", "short")
    assert.same({ 2, 2, 3, 3, 0, 10, 1 },
      { #h.samples, #h.tuning, h.dropped.samples, h.dropped.tuning, h.dropped.gen2, h:seen(), h.short })
    assert.same({ 300, 4, 10, 40, 4 },
      { h.stats.budget.sum // h.stats.budget.n, h.stats.cost.n, h.stats.cost.min, h.stats.cost.max, h.stats.changes })
  end)
end)

describe("collect_events datas", function()
  it("rolls up the recording of a Server GC", function()
    local envelope, datas = collect("datas")
    assert.is_nil(datas.status)
    local o = datas.overview
    assert.same({ 1, 2, 1 }, { o.minHeapCount, o.maxHeapCount, o.heapCountChanges })
    assert.is_true(o.throughputCostPercentMin < o.throughputCostPercentMean and o.throughputCostPercentMean < o.throughputCostPercentMax)
    assert.is_true(o.meanGen0BudgetBytes > 1e6 and o.meanSohStableSizeBytes > 1e6)
    assert.same({ 0, 0, 0 }, { #datas.samples, #datas.tuningEvents, #datas.fullGcTuningEvents })
    assert.matches("1 to 2 heaps, 1 change in 29 decisions", envelope.summary)
    assert.equal("gc-datas", handles.get(envelope.handle).kind)
    assert.equal("overview", envelope.hints[1].suggestedArguments.view)
    assert.is_true(#json.encode(envelope) <= 16384)
  end)

  it("has all rows at Detail", function()
    local _, datas = collect("datas", { depth = "Detail" })
    assert.same({ 82, 27, 2 }, { #datas.samples, #datas.tuningEvents, #datas.fullGcTuningEvents })
    local index = 0
    for _, row in ipairs(datas.samples) do
      assert.is_true(row.gcIndex > index and row.pauseMs <= row.elapsedBetweenGcsMs)
      index = row.gcIndex
    end
  end)

  it("Workstation GC: success, status NoDatasEvents, a note, no error", function()
    local envelope, datas = collect("gcs")
    assert.equal("NoDatasEvents", datas.status)
    assert.matches("^NoDatasEvents: 20 collections, none of them adapting: this is Workstation GC", datas.notes[1])
    assert.same({ "gc", "overview" }, { envelope.hints[1].suggestedArguments.kind, envelope.hints[2].suggestedArguments.view })
    assert.same({ heapCountChanges = 0 }, datas.overview)
    local overview = view(envelope, "overview")
    assert.same({ heapCountChanges = 0 }, overview.overview)
    assert.matches("NoDatasEvents", overview.notes[1])
    assert.same({ 0, 0, 0 }, { view(envelope, "samples").returned, view(envelope, "tuning").returned, view(envelope, "gen2").returned })
  end)

  it("says that a recording without a collection has none", function()
    assert.matches("the recording has no collection", (select(2, collect("throw"))).notes[1])
  end)

  it("says what the cap left out, for each list", function()
    local _, datas = collect("datas", { maxEvents = 1 })
    assert.same({ 1, 2, 1 }, { datas.overview.minHeapCount, datas.overview.maxHeapCount, datas.overview.heapCountChanges })
    local said = table.concat(datas.notes, "\n")
    assert.matches("capped at 1 rows of samples; 81 more", said)
    assert.matches("capped at 1 rows of tuning; 26 more", said)
    assert.matches("capped at 1 rows of gen2; 1 more", said)
  end)
end)

describe("views.gc-datas", function()
  it("tuning has one row a decision; changesOnly keeps transitions and one baseline row", function()
    local envelope = collect("datas")
    local all, changes = view(envelope, "tuning"), view(envelope, "tuning", { changesOnly = true })
    assert.same({ 27, false }, { all.returned, all.changesOnly })
    assert.is_true(changes.changesOnly)
    local transitions = 0
    for i, row in ipairs(all.tuning) do
      if row.isTransition then transitions = transitions + 1 end
      assert.equal(row.heapCount ~= row.newHeapCount, row.isTransition)
      assert.is_true(i == 1 or all.tuning[i - 1].timestamp <= row.timestamp)
    end
    assert.same(all.tuning[1], changes.tuning[1])
    assert.equal(transitions + (all.tuning[1].isTransition and 0 or 1), changes.returned)
    for i = 2, #changes.tuning do assert.is_true(changes.tuning[i].isTransition) end
  end)

  it("topN caps the rows of each list", function()
    local envelope = collect("datas")
    for name, member in pairs { tuning = "tuning", samples = "samples", gen2 = "gen2" } do
      local payload = view(envelope, name, { topN = 1 })
      assert.same({ 1, 1 }, { payload.returned, #payload[member] }, name)
    end
    assert.same({ 50, 2 }, { view(envelope, "samples").returned, view(envelope, "gen2").returned })
  end)
end)
