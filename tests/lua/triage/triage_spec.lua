-- SPDX-License-Identifier: MIT
-- Triage contract v2 on windows of known readings: signals, hypotheses, assessment, indicators, the older fields.
local here = debug.getinfo(1, "S").source:match("^@(.*/)")
local windows = dofile(here .. "windows.lua")
local triage = require("triage")
local index = require("lunette.rules.index")
local rules = require("lunette.rules")

local function judged(readings, more) return triage.judge(windows.of(readings, more), 42) end

local function by_name(list, name)
  for _, item in ipairs(list) do
    if item.name == name then return item end
  end
  return nil
end

local function names(list)
  local out = {}
  for i, item in ipairs(list) do out[i] = item.name end
  return out
end

local RISING_QUEUE <const> = { ["threadpool-queue-length"] = { 380, 410, 440, 470 }, ["threadpool-thread-count"] = { 2, 4, 6, 8 } }

describe("triage", function()
  it("calls an idle process healthy", function()
    local r = judged()
    assert.equal(2, r.modelVersion)
    assert.equal("healthy", r.assessment)
    assert.equal("healthy", r.verdict)
    assert.equal("Healthy", r.severity)
    assert.same({}, names(r.observedSignals))
    assert.same({}, names(r.hypotheses))
  end)

  it("gives threadpool.queue at 10 with value, comparison, threshold, unit and rationale", function()
    local r = judged { ["threadpool-queue-length"] = { 0, 0, 0, 10 } }
    local e = by_name(r.observedSignals, "threadpool.queue").evidence[1]
    assert.same({ "threadpool-queue-length", 10, ">=", 10, "items" }, { e.name, e.value, e.comparison, e.threshold, e.unit })
    assert.is_true(#e.rationale > 10)
    assert.is_nil(by_name(judged({ ["threadpool-queue-length"] = { 0, 0, 0, 9 } }).observedSignals, "threadpool.queue"))
  end)

  it("finds little CPU with a small queue inconclusive, without a hypothesis", function()
    local r = judged { ["threadpool-queue-length"] = { 15, 15, 15, 15 } }
    assert.equal("inconclusive", r.assessment)
    assert.equal("inconclusive", r.verdict)
    assert.equal("Healthy", r.severity)
    assert.same({}, names(r.hypotheses))
  end)

  it("gives cpu.effective-core-consumption at 0.8 cores, by the target's own processor count", function()
    assert.is_truthy(by_name(judged({ ["cpu-usage"] = { 40, 40, 40, 40 } }).observedSignals, "cpu.effective-core-consumption"))
    assert.is_nil(by_name(judged({ ["cpu-usage"] = { 39, 39, 39, 39 } }).observedSignals, "cpu.effective-core-consumption"))
    local r = judged({ ["cpu-usage"] = { 40, 40, 40, 40 } }, { processors = false })
    assert.is_nil(by_name(r.observedSignals, "cpu.effective-core-consumption"))
    assert.is_nil(r.evidence.effectiveCoreUsage)
    assert.is_nil(r.evidence.logicalProcessorCount)
    assert.equal("unknown", r.evidence.cpuTopologyStatus)
  end)

  it("computes effectiveCoreUsage from usage and count", function()
    local e = judged({ ["cpu-usage"] = { 25, 25, 25, 25 } }, { processors = 8 }).evidence
    assert.equal(2.0, e.effectiveCoreUsage)
    assert.equal(8, e.logicalProcessorCount)
    assert.equal("known", e.cpuTopologyStatus)
  end)

  it("calls one busy core of two inconclusive, and all of them critical", function()
    assert.equal("inconclusive", judged({ ["cpu-usage"] = { 50, 50, 50, 50 } }).assessment)
    local r = judged { ["cpu-usage"] = { 99, 99, 99, 99 } }
    assert.same({ "critical", "cpu-bound", "Critical" }, { r.assessment, r.verdict, r.severity })
    assert.equal("cpu.saturation", r.hypotheses[1].name)
    assert.equal("collect_sample", r.hypotheses[1].nextStep.nextTool)
  end)

  it("needs 20 % and 1 MB on the same metric for growth", function()
    local small = judged { ["gc-heap-size"] = { 1, 1.2, 1.4, 1.5 } }
    assert.is_nil(by_name(small.observedSignals, "memory.intra-window-growth"))
    assert.equal("normal", (by_name(small.topIndicators, "gc-heap-size-growth") or { level = "missing" }).level)
    assert.equal("healthy", small.assessment)
    assert.is_nil(by_name(judged({ ["gc-heap-size"] = { 100, 105, 110, 119 } }).observedSignals, "memory.intra-window-growth"))
    assert.is_nil(by_name(judged({
      ["gc-heap-size"] = { 1, 1.2, 1.4, 1.9 }, ["working-set"] = { 100, 110, 115, 118 },
    }).observedSignals, "memory.intra-window-growth"))
    local large = by_name(judged({ ["gc-heap-size"] = { 10, 11, 12, 13 } }).observedSignals, "memory.intra-window-growth")
    assert.equal(2, #large.evidence)
    assert.equal("elevated", large.level)
  end)

  it("takes growth through collections for degraded, growth without any for inconclusive, and names no leak", function()
    local growing = { ["gc-heap-size"] = { 5, 15, 25, 35 }, ["working-set"] = { 50, 60, 70, 80 }, ["gen-0-gc-count"] = { 2, 2, 2, 2 } }
    local r = judged(growing)
    assert.equal("degraded", r.assessment)
    assert.equal("medium", by_name(r.hypotheses, "memory.footprint-growth").confidence)
    growing["gen-0-gc-count"] = { 0, 0, 0, 0 }
    r = judged(growing)
    assert.equal("inconclusive", r.assessment)
    local h = by_name(r.hypotheses, "memory.footprint-growth")
    assert.equal("low", h.confidence)
    assert.equal("gen-0-gc-count", h.contradictingEvidence[1].name)
    assert.is_nil(h.summary:lower():find("leak"))
  end)

  it("reads loh-size as bytes", function()
    local e = judged({ ["loh-size"] = { 1000000, 2000000, 3000000, 4000000 } }).evidence.lohSizeTrend
    assert.same({ 1000000, 4000000, 3000000, 3.0, 3.0 }, { e.first, e.last, e.delta, e.relativeChange, e.deltaMb })
  end)

  it("needs little CPU, a queue and a slow p95 for work.waiting-or-backpressure", function()
    local queue = { ["threadpool-queue-length"] = { 20, 20, 20, 20 } }
    local h = by_name(judged(queue, { p95_s = 0.5 }).hypotheses, "work.waiting-or-backpressure")
    assert.equal("medium", h.confidence)
    assert.equal("degraded", judged(queue, { p95_s = 0.5 }).assessment)
    assert.is_nil(by_name(judged(queue, { p95_s = 0.499 }).hypotheses, "work.waiting-or-backpressure"))
    assert.is_nil(by_name(judged({}, { p95_s = 0.9 }).hypotheses, "work.waiting-or-backpressure"))
    queue["cpu-usage"] = { 41, 41, 41, 41 }
    assert.is_nil(by_name(judged(queue, { p95_s = 0.9 }).hypotheses, "work.waiting-or-backpressure"))
  end)

  it("has little confidence in waiting while the topology is unknown", function()
    local r = judged({ ["threadpool-queue-length"] = { 20, 20, 20, 20 } }, { p95_s = 0.9, processors = false })
    assert.equal("low", by_name(r.hypotheses, "work.waiting-or-backpressure").confidence)
    assert.equal("inconclusive", r.assessment)
  end)

  it("calls a starved pool critical and its workers held", function()
    local r = judged(RISING_QUEUE)
    assert.same({ "critical", "threadpool-starvation", "Critical" }, { r.assessment, r.verdict, r.severity })
    local h = by_name(r.hypotheses, "threadpool.workers-held")
    assert.equal("medium", h.confidence)
    assert.equal("threadpool.starvation", r.observedSignals[1].name)
  end)

  it("calls constant contention degraded, a little of it inconclusive", function()
    local r = judged { ["monitor-lock-contention-count"] = { 240, 250, 255, 245 } }
    assert.same({ "degraded", "lock-contention", "Degraded" }, { r.assessment, r.verdict, r.severity })
    assert.equal("high", by_name(r.observedSignals, "lock.contention").level)
    assert.equal("inconclusive", judged({ ["monitor-lock-contention-count"] = { 12, 12, 12, 12 } }).assessment)
  end)

  it("does not believe a time in GC that no collection of the window made", function()
    assert.equal("healthy", judged({ ["time-in-gc"] = { 60, 60, 60, 60 } }).assessment)
    local r = judged { ["time-in-gc"] = { 60, 60, 60, 60 }, ["gen-0-gc-count"] = { 3, 3, 3, 3 } }
    assert.same({ "critical", "gc-pressure", "Critical" }, { r.assessment, r.verdict, r.severity })
  end)

  it("orders hypotheses by confidence, then by the level behind them", function()
    local r = judged {
      ["monitor-lock-contention-count"] = { 12, 12, 12, 12 }, ["cpu-usage"] = { 95, 95, 95, 95 }, ["time-in-gc"] = { 20, 20, 20, 20 },
      ["gen-0-gc-count"] = { 3, 3, 3, 3 },
    }
    assert.same({ "cpu.saturation", "memory.gc-pressure", "locks.threads-queue-up" }, names(r.hypotheses))
    assert.same({ "gc-pressure", "lock-contention" }, r.secondaryVerdicts)
  end)

  it("finds a window without a measurement inconclusive, never healthy", function()
    local r = judged({}, { empty = true, processors = false })
    assert.same({ "inconclusive", "inconclusive" }, { r.assessment, r.verdict })
    assert.is_nil(r.evidence.cpuUsage)
    assert.same({}, names(r.topIndicators))
  end)

  it("makes a silent interval a signal of its own", function()
    local r = judged({}, { silent_s = 3.5 })
    assert.equal("inconclusive", r.assessment)
    assert.equal(3.5, by_name(r.observedSignals, "runtime.silent-interval").evidence[1].value)
  end)

  it("never asserts I/O, nor the verdict io-bound", function()
    local json = require("lunette.json")
    for _, readings in ipairs { RISING_QUEUE, { ["threadpool-queue-length"] = { 20, 20, 20, 20 } } } do
      local r = judged(readings, { p95_s = 2 })
      assert.is_nil(json.encode(r):find("I/O", 1, true))
      assert.is_nil(json.encode(triage.hints(r, 42)):find("I/O", 1, true))
      assert.are_not.equal("io-bound", r.verdict)
    end
  end)

  it("hints at the step of the best hypothesis first", function()
    local list = triage.hints(judged(RISING_QUEUE), 42)
    assert.equal("collect_events", list[1].nextTool)
    assert.equal("high", list[1].priority)
    assert.same({ kind = "threadpool", durationSeconds = 10, processId = 42 }, list[1].suggestedArguments)
    assert.equal("gc", triage.hints(judged(), 42)[1].suggestedArguments.kind)
  end)

  it("says the assessment and at most three indicators in one line", function()
    local artifact = windows.of(RISING_QUEUE)
    local line = triage.sentence(triage.judge(artifact, 42), artifact)
    assert.is_truthy(line:find("critical (threadpool.workers-held)", 1, true))
    assert.is_truthy(line:find("threadpool-queue-length 470 items (critical)", 1, true))
    local _, n = line:gsub("%(%l+%)", "")
    assert.is_true(n <= 3)
  end)
end)

describe("the record of a triage", function()
  --- Faults of a result beside the contract's TriageResult; "" for none.
  local function faults_of(result)
    local json, schema, validate = require("lunette.json"), require("lunette.schema"), require("lunette.validate")
    assert(schema.load_records(require("lunette.sys").home .. "/schemas/records.json"))
    local whole = schema.output({ name = "triage", declared = { payload = "TriageResult" } })
    local answer = {
      summary = "s", data = json.decode(json.encode(result)), hints = json.array({}), cancelled = false,
      safety = require("lunette.safety").descriptor("low"),
    }
    local ok, faults = validate.check(answer, whole)
    return ok and "" or table.concat(faults, "; ")
  end

  local windows_of_all_sorts = {
    healthy = windows.of(), starved = windows.of(RISING_QUEUE), empty = windows.of({}, { empty = true, processors = false }),
    busy = windows.of({ ["cpu-usage"] = { 95, 95, 95 } }),
    slow = windows.of({ ["threadpool-queue-length"] = { 20, 20, 20 } }, { p95_s = 1 }),
    growing = windows.of({ ["gc-heap-size"] = { 5, 15, 25 }, ["working-set"] = { 50, 60, 70 }, ["gen-0-gc-count"] = { 2, 2, 2 } }),
    silent = windows.of({}, { silent_s = 4 }),
  }
  for name, artifact in pairs(windows_of_all_sorts) do
    it("fits the contract: " .. name, function() assert.equal("", faults_of(triage.judge(artifact, 42))) end)
  end

  it("would be noticed when it did not", function()
    local r = triage.judge(windows.of(), 42)
    r.assessment = "fine"
    assert.are_not.equal("", faults_of(r))
  end)
end)

describe("triage of the recorded session", function()
  it("sees slow requests that wait while the CPU is idle", function()
    local kit = require("support.framework_kit")
    local artifact = assert(require("collectors.counters").collect(kit.ctx(), { path = require("lunette.sys").home
      .. "/tests/data/demo.nettrace" }, { meters = triage.options().meters, interval_s = 1,
      max_series = triage.MAX_SERIES }))
    local r = triage.judge(artifact)
    assert.equal("degraded", r.assessment)
    assert.equal("threadpool-starvation", r.verdict)
    assert.equal("work.waiting-or-backpressure", r.hypotheses[1].name)
    assert.is_truthy(by_name(r.hypotheses, "threadpool.workers-held"))
    assert.near(0.0875, 0.03, r.evidence.effectiveCoreUsage)
    assert.is_true(r.evidence.requestDurationP95 > 0.59 and r.evidence.requestDurationP95 < 0.65)
    assert.equal(2, r.evidence.logicalProcessorCount)
  end)
end)

describe("the indicators of a triage", function()
  local cases = {
    { "cpu-usage", 95, 90, "critical" }, { "cpu-usage", 80, 65, "high" }, { "cpu-usage", 50, 35, "elevated" },
    { "cpu-usage", 15, 10, "normal" },
    { "gen-2-gc-count", 0.5, 0, "normal" }, { "gen-2-gc-count", 3, 50, "high" }, { "threadpool-queue-length", 1000, 100, "critical" },
    { "request-duration-p95", 500, 50, "high" }, { "alloc-rate", 60, 56, "high" }, { "exception-count", 1, 20, "elevated" },
  }
  for _, case in ipairs(cases) do
    it(("scores %s %s as %d, %s"):format(table.unpack(case)), function()
      for _, indicator in ipairs(index.of().indicators) do
        if indicator.name == case[1] then
          local score, level = rules.score(indicator, case[2])
          assert.same({ case[3], case[4] }, { math.floor(score), level })
          return
        end
      end
      error("no such indicator")
    end)
  end

  it("keeps five, the highest score first, rounded", function()
    local r = judged { ["cpu-usage"] = { 33.333, 33.333, 33.333, 33.333 }, ["exception-count"] = { 4, 4, 4, 4 } }
    assert.equal(5, #r.topIndicators)
    assert.equal("exception-count", r.topIndicators[1].name)
    assert.equal(33.33, r.topIndicators[2].value)
    assert.is_true(math.type(r.topIndicators[2].score) == "integer")
  end)

  it("leaves out exceptions and requests when there are none", function()
    assert.is_nil(by_name(judged().topIndicators, "exception-count"))
    assert.is_nil(by_name(judged().topIndicators, "request-duration-p95"))
  end)
end)

describe("a triage of several captures", function()
  it("gives rules the captures of a sweep, by their kinds", function()
    local set = index.of()
    local input = require("lunette.rules.input")
    local read = {}
    local gc, thrown = { duration_ms = 7 }, { total = 3 }
    local _, window = triage.judged(windows.of(), 42, { gc = gc, exceptions = thrown, ["jit-snapshot"] = { completed = 9 } })
    for _, spec in ipairs {
      { handle = "gc-events", field = "duration_ms" }, { handle = "exception-snapshot", field = "total" },
      { handle = "jit-snapshot", field = "completed" }, { handle = "threadpool-snapshot", field = "starvation" },
    } do
      read[#read + 1] = set.readers[input.compile(spec, { set = set, what = "the spec" })](window) or "none"
    end
    assert.same({ 7, 3, 9, "none" }, read)
  end)
end)
