-- SPDX-License-Identifier: MIT
-- collect_events(kind="gc") over recordings, its views, signals and hints; and how induce=true is gated and counted.
local collect_events = require("tools.collect_events")
local collections = require("collectors.gc.collections")
local handles = require("lunette.handles")
local induce = require("collectors.gc.induce")
local json = require("lunette.json")
local kit = require("support.framework_kit")
local gc_kit = require("support.gc_kit")
local query_snapshot = require("tools.query_snapshot")
local snapshot = require("collectors.gc.snapshot")
local views = require("lunette.view")

for _, name in ipairs { "summary", "events", "pauseHistogram", "timeline", "longestPauses", "byGeneration", "heap-stats" } do
  views.register(require("views.gc-events." .. name))
end

local function ctx(options)
  local made = kit.ctx(options)
  made.transport = "cli"
  return made
end

local function collect(name, more)
  local arguments = { kind = "gc", traceFilePath = gc_kit.RECORDINGS .. name .. ".nettrace" }
  for k, v in pairs(more or {}) do arguments[k] = v end
  local envelope = kit.call(collect_events, arguments, ctx())
  assert.is_nil(envelope.error)
  local ok, faults = kit.conforms(envelope, collect_events)
  assert.is_true(ok, faults)
  return envelope, envelope.data.gc
end

local function view(envelope, name, more)
  local arguments = { handle = envelope.handle, view = name }
  for k, v in pairs(more or {}) do arguments[k] = v end
  local answer = kit.call(query_snapshot, arguments, ctx())
  assert.is_nil(answer.error)
  local ok, faults = kit.conforms(answer, nil, "gc-events", name)
  assert.is_true(ok, faults)
  return answer.data.payload, answer
end

--- An artifact made by hand: marks, and what collect would add.
local function artifact(marks, facts, more)
  local s = gc_kit.run(marks, facts)
  local a = {
    process_id = 42, started_unix_ms = 1764484800000, duration_ms = 1000, start_unix_ns = 1764484800000 * 1000000,
    collections = s.collections, suspensions = s.suspensions, heap = { rows = {}, dropped = 0 }, notes = {}, origin = "live",
  }
  for k, v in pairs(more or {}) do a[k] = v end
  return a
end

local function ms(timespan)
  local h, m, s = timespan:match("^(%d+):(%d+):([%d.]+)$")
  return (h * 3600 + m * 60 + s) * 1000
end

local function heap(at, loh)
  return { at = at, gen0 = 1, gen1 = 2, gen2 = 3, loh = loh, poh = 4, promoted = 5, survivors = 6, pinned = 7, handles = 8 }
end

describe("collect_events gc", function()
  it("counts what the recording of gcs holds, in both streams", function()
    local envelope, gc = collect("gcs")
    assert.equal(20, gc.totalCollections)
    assert.same({ { generation = 0, count = 9 }, { generation = 1, count = 5 }, { generation = 2, count = 6 } }, gc.generations)
    assert.same({ Induced = 15, AllocSmall = 5 }, gc.reasons)
    assert.same({ 2, "available", { "no-detected-loss" } },
      { gc.suspension.measurementVersion, gc.suspension.measurementStatus, gc.suspension.quality })
    assert.equal("00:00:00.0047510", gc.suspension.totalSuspensionTime)
    assert.matches("20 collections %(gen0 9, gen1 5, gen2 6%) of the recording", envelope.summary)
    assert.equal("gc-events", handles.get(envelope.handle).kind)
  end)

  it("totalCollections and generations stay exact with maxEvents 1, each list with its own drop count", function()
    local _, gc = collect("gcs", { maxEvents = 1, depth = "Detail" })
    assert.same({ 20, 1, 19 }, { gc.totalCollections, #gc.events, gc.droppedEvents })
    assert.same({ 9, 5, 6 }, { gc.generations[1].count, gc.generations[2].count, gc.generations[3].count })
    assert.same({ 1, 19 }, { #gc.heapStats, gc.droppedHeapStats })
    assert.same({ 1, 19, 1, "available", { "interval-detail-capped" } },
      { gc.suspension.retainedIntervals, gc.suspension.droppedIntervals, #gc.suspension.intervals, gc.suspension.measurementStatus,
        gc.suspension.quality })
    assert.equal("00:00:00.0047510", gc.suspension.totalSuspensionTime) -- losing rows to the cap leaves it valid
    local other = collect("gcs")
    assert.equal(gc.suspension.maxSuspensionTime, other.data.gc.suspension.maxSuspensionTime)
  end)

  it("caps each list for itself: background collections have two suspensions each", function()
    local _, gc = collect("bgc", { maxEvents = 5 })
    assert.same({ 0, 0, 5 }, { gc.droppedEvents, gc.droppedHeapStats, gc.suspension.droppedIntervals })
  end)

  it("maxEvents 0 and 100001 are InvalidArgument", function()
    for _, n in ipairs { 0, 100001 } do
      local envelope = kit.call(collect_events, { kind = "gc", maxEvents = n }, ctx())
      assert.same({ "InvalidArgument", "maxEvents" }, { envelope.error.kind, envelope.error.detail })
    end
  end)

  it("totalPauseTime is the collections' elapsed time, not the suspension", function()
    local _, gc = collect("bgc", { depth = "Detail" })
    local sum = 0
    for _, e in ipairs(gc.events) do sum = sum + ms(e.pauseDuration) end
    assert.near(ms(gc.totalPauseTime), sum, 0.001)
    assert.is_true(ms(gc.totalPauseTime) > 10 * ms(gc.suspension.totalSuspensionTime))
    assert.near(100 * ms(gc.suspension.totalSuspensionTime) / ms(gc.duration), gc.suspension.fullySuspendedPercent, 0.001)
  end)

  it("drops collections and intervals at Summary, and says so as output, not as loss", function()
    local envelope, gc = collect("gcs")
    assert.same({ 0, 0, 20, 0, 0 }, { #gc.events, #gc.suspension.intervals, gc.suspension.outputOmittedIntervals,
      gc.suspension.droppedIntervals, gc.droppedEvents })
    assert.equal(2, #gc.heapStats)
    assert.is_true(#json.encode(envelope) <= 16384)
    local _, detail = collect("gcs", { depth = "Detail" })
    assert.same({ 20, 20, 0, 20 },
      { #detail.events, #detail.suspension.intervals, detail.suspension.outputOmittedIntervals, #detail.heapStats })
  end)

  it("says nothing of pauses when the recording has no GC event, and claims no zero", function()
    local envelope, gc = collect("throw")
    assert.equal(0, gc.totalCollections)
    assert.same({ "unavailable", { "no-gc-events" } }, { gc.suspension.measurementStatus, gc.suspension.quality })
    for _, name in ipairs { "totalSuspensionTime", "maxSuspensionTime", "fullySuspendedPercent", "acquisitionTime", "restartTime" } do
      assert.is_nil(gc.suspension[name], name)
    end
    assert.matches("NoGcEvents", table.concat(gc.notes, " "))
    assert.matches("pauses are not known %(no%-gc%-events%)", envelope.summary)
    assert.is_nil(view(envelope, "pauseHistogram").buckets)
    assert.is_nil(view(envelope, "longestPauses").longestPauses)
    assert.equal("unavailable", view(envelope, "summary").measurementStatus)
    assert.is_nil(envelope.signals)
  end)
end)

describe("views.gc-events", function()
  it("all but heap-stats have measurementVersion 2 and measurementStatus", function()
    local envelope = collect("gcs")
    for _, name in ipairs { "summary", "events", "pauseHistogram", "timeline", "longestPauses", "byGeneration" } do
      local payload = view(envelope, name)
      assert.same({ 2, "available", 20, 0 }, { payload.measurementVersion, payload.measurementStatus, payload.totalCollections,
        payload.droppedCollections }, name)
    end
    assert.is_nil(view(envelope, "heap-stats").measurementVersion)
  end)

  it("events and timeline show elapsed, index and gap, in order of time, topN of them", function()
    local envelope = collect("gcs")
    for name, n in pairs { events = 20, timeline = 7 } do
      local payload = view(envelope, name, { topN = n })
      local rows = payload[name]
      assert.same({ n, n }, { #rows, payload.returned })
      assert.is_nil(rows[1].gapSincePrevious)
      for i, row in ipairs(rows) do
        assert.equal(i, row.index)
        assert.is_true(ms(row.elapsed) > 0)
        assert.is_true(i == 1 or (ms(row.gapSincePrevious) > 0 and rows[i - 1].timestamp <= row.timestamp))
        assert.is_nil(row.pauseDuration)
      end
    end
  end)

  it("a collection that begins beside another has no gap", function()
    local rows = snapshot.timeline(artifact {
      { "start", 1, { count = 4, depth = 2, type = 1 } }, { "start", 6, { count = 5, depth = 1, type = 2 } }, { "stop", 8, { count = 5 } },
      { "stop", 20, { count = 4 } }, { "start", 25, { count = 6, depth = 0, type = 0 } }, { "stop", 26, { count = 6 } },
    })
    assert.same({ "00:00:00", "00:00:00.0050000" }, { rows[2].gapSincePrevious, rows[3].gapSincePrevious })
  end)

  it("byGeneration has gen0, gen1, gen2 and background, whose sums are the totals", function()
    local payload = view(collect("datas"), "byGeneration")
    local names, count, sum = {}, 0, 0
    for i, row in ipairs(payload.byGeneration) do
      names[i], count, sum = row.bucket, count + row.count, sum + ms(row.totalElapsed)
      assert.near(ms(row.totalElapsed) / row.count, ms(row.meanElapsed), 0.001)
    end
    assert.same(collections.BUCKETS, names)
    assert.same({ 90, 7 }, { count, payload.byGeneration[4].count })
    assert.near(ms(payload.totalCollectionElapsed), sum, 0.01)
    assert.is_true(ms(payload.byGeneration[4].concurrentElapsed) < ms(payload.byGeneration[4].totalElapsed))
  end)

  it("longestPauses are suspensions, longest first, without a generation", function()
    local payload = view(collect("datas"), "longestPauses", { topN = 10 })
    assert.equal(10, #payload.longestPauses)
    for i, row in ipairs(payload.longestPauses) do
      assert.is_nil(row.generation)
      assert.is_true(row.isReliable and (row.reason == 1 or row.reason == 6))
      assert.is_true(i == 1 or ms(row.duration) <= ms(payload.longestPauses[i - 1].duration))
    end
    assert.equal(payload.suspension.maxSuspensionTime, payload.longestPauses[1].duration)
  end)

  it("longestPauses ranks all suspensions, also those beyond the retained rows", function()
    local few = view(collect("datas", { maxEvents = 2 }), "longestPauses", { topN = 5 })
    local all = view(collect("datas"), "longestPauses", { topN = 5 })
    assert.same(all.longestPauses, few.longestPauses)
  end)

  it("pauseHistogram counts every suspension once", function()
    local payload = view(collect("datas", { maxEvents = 1 }), "pauseHistogram")
    local labels, n = {}, 0
    for i, bucket in ipairs(payload.buckets) do labels[i], n = bucket.label, n + bucket.count end
    assert.same({ "<1ms", "1-10ms", "10-100ms", "100-1000ms", ">=1s" }, labels)
    assert.same({ 91, 1, 2147483647 }, { n, payload.buckets[1].upperBoundMs, payload.buckets[5].upperBoundMs })
  end)

  it("heap-stats gives the earliest samples and the deltas from the first to the last of the window", function()
    local whole = view(collect("datas"), "heap-stats", { topN = 1000 })
    local few, envelope = view(collect("datas", { maxEvents = 3 }), "heap-stats", { topN = 2 })
    assert.same({ 90, 2, 2 }, { whole.returned, few.returned, #few.samples })
    assert.same(whole.samples[1], few.samples[1])
    assert.same(whole.trend, few.trend)
    local first, last = whole.samples[1], whole.samples[90]
    assert.equal(last.gen2SizeBytes - first.gen2SizeBytes, whole.trend.gen2DeltaBytes)
    assert.equal(last.totalHeapBytes - first.totalHeapBytes, whole.trend.totalHeapDeltaBytes)
    assert.equal(last.gcHandleCount - first.gcHandleCount, whole.trend.gcHandleCountDelta)
    assert.equal(first.gen0SizeBytes + first.gen1SizeBytes + first.gen2SizeBytes + first.lohSizeBytes + first.pohSizeBytes,
      first.totalHeapBytes)
    assert.matches("2 of 90 heap samples", envelope.summary)
  end)

  it("heap-stats of the older event has no pinned heap: its members are 0", function()
    local sample = heap(0, 10)
    sample.poh = nil
    local row = snapshot.heap_sample(artifact({}), sample)
    assert.same({ 0, 16 }, { row.pohSizeBytes, row.totalHeapBytes })
  end)

  it("heap-stats of a damaged recording are whole numbers all the same", function()
    local sample = heap(0, 10)
    sample.promoted, sample.gen2, sample.loh, sample.gen0, sample.pinned = 3.6e19, math.maxinteger, -1, 0 / 0, "x"
    local row = snapshot.heap_sample(artifact({}), snapshot.whole_numbers({ sample })[1])
    for _, name in ipairs { "promotedBytes", "gen0SizeBytes", "gen2SizeBytes", "lohSizeBytes", "totalHeapBytes", "pinnedObjectCount" } do
      assert.is_true(math.type(row[name]) == "integer" and row[name] >= 0, name)
    end
    assert.same({ 2, 0, 1 << 53 }, { row.gen1SizeBytes, row.lohSizeBytes, row.promotedBytes })
  end)
end)

describe("gc signals", function()
  local share, gen2, loh = require("signals.gc_fully_suspended_share"), require("signals.gc_gen2_share"), require("signals.gc_loh_growth")
  local function pauses(long, n, more)
    local marks = {}
    for i = 1, n do marks = gc_kit.join(marks, gc_kit.blocking(i, i * 100, long, more)) end
    return marks
  end

  it("fully-suspended share: from 2 % on, with the three longest", function()
    assert.same({}, share.of(artifact(pauses(1.9, 10)), "H"))
    local signal = share.of(artifact(pauses(5, 10)), "H")[1]
    assert.same({ "gc.fully-suspended-share.v2", 3, "ms", "H" }, { signal.signal, #signal.buckets, signal.buckets[1].unit,
      signal.buckets[1].handle })
    assert.near(0.05, signal.salience, 0.001)
    assert.equal("longestPauses", signal.nextAction.suggestedArguments.view)
  end)

  it("fully-suspended share is silent without usable evidence, and a lower bound when the edge cut some", function()
    assert.same({}, share.of(artifact(pauses(5, 10), { lost = 1 })))
    local cut = artifact(gc_kit.join({ { "restart", 1 } }, pauses(5, 10)))
    assert.matches("^At least 5%.0 %%", share.of(cut)[1].summary)
  end)

  it("gen2 share: from a fifth of at least three, silent after loss, without what induce forced", function()
    assert.same({}, gen2.of(artifact(pauses(1, 10))))
    assert.same({}, gen2.of(artifact(pauses(1, 2, { depth = 2 }))))
    local signal = gen2.of(artifact(gc_kit.join(pauses(1, 8), gc_kit.blocking(9, 900, 1, { depth = 2 }),
      gc_kit.blocking(10, 950, 1, { depth = 2 }))))[1]
    assert.same({ "gc.gen2-share", 0.2, { { key = "gen2", magnitude = 2, unit = "collections" } } },
      { signal.signal, signal.salience, signal.buckets })
    assert.same({}, gen2.of(artifact(pauses(1, 10, { depth = 2 }), { lost = 1 })))
    assert.same({}, gen2.of(artifact(gc_kit.join(pauses(1, 10, { depth = 2 }), { { "stop", 2000, { count = 99 } } }))))
    assert.same({}, gen2.of(artifact(pauses(1, 3, { depth = 2 }), nil, { induced = { collections = 2 } })))
  end)

  it("LOH growth: by a tenth and a megabyte from the first to the last sample", function()
    local function grown(from, to)
      return artifact({}, nil, { heap = { rows = {}, dropped = 0, first = heap(1, from), last = heap(2, to) } })
    end
    local signal = loh.of(grown(30000000, 40000000))[1]
    assert.same({ "gc.loh-growth", 0.25, 10000000 }, { signal.signal, signal.salience, signal.buckets[1].magnitude })
    assert.equal("heap-stats", signal.nextAction.suggestedArguments.view)
    assert.same({}, loh.of(grown(40000000, 30000000)))
    assert.same({}, loh.of(grown(100000, 1000000)))
    assert.same({}, loh.of(grown(100000000, 105000000)))
    assert.same({}, loh.of(artifact({})))
  end)
end)

describe("gc hints", function()
  local hints = require("support.hints_kit").for_kind("gc-events")

  it("a pause above 100 ms asks for a dump, an elapsed time does not", function()
    local long = hints.of(artifact(gc_kit.blocking(1, 0, 150)), "H", 42)
    assert.same({ "collect_process_dump", "WithHeap", 42 },
      { long[1].nextTool, long[1].suggestedArguments.dumpType, long[1].suggestedArguments.processId })
    local elapsed = hints.of(artifact { { "start", 1, { count = 1, depth = 2, type = 1 } }, { "stop", 500, { count = 1 } } }, "H", 42)
    assert.same({ "collect_events", "event_source" }, { elapsed[1].nextTool, elapsed[1].suggestedArguments.kind })
    assert.matches("^How long the pauses were is not known", elapsed[1].reason)
    assert.matches("^No pause above 100 ms", hints.of(artifact(gc_kit.blocking(1, 0, 50)), "H", 42)[1].reason)
  end)

  it("always leads to the histogram", function()
    for _, a in ipairs { artifact({}), artifact(gc_kit.blocking(1, 0, 150)) } do
      local found = false
      for _, hint in ipairs(hints.of(a, "H", 42)) do found = found or hint.suggestedArguments.view == "pauseHistogram" end
      assert.is_true(found)
    end
  end)
end)

describe("collect_events gc induce", function()
  it("is a high-risk call that does nothing before it is acknowledged", function()
    local envelope = kit.call(collect_events, { kind = "gc", induce = true, processId = 1 }, ctx())
    assert.is_nil(envelope.error)
    assert.is_nil(envelope.data)
    assert.same({ "high", "acknowledge" }, { envelope.safety.riskLevel, envelope.safety.approvalPolicy })
    assert.is_table(envelope.safetyApproval)
    assert.matches("full blocking garbage collection", envelope.safety.sideEffects[1])
  end)

  it("leaves the window without it a low-risk call", function()
    assert.equal("low", collect("gcs").safety.riskLevel)
    assert.equal("low", collect("gcs", { induce = false }).safety.riskLevel)
  end)

  it("needs a live process", function()
    local envelope = kit.call(collect_events, { kind = "gc", induce = true, traceFilePath = "x.nettrace" }, ctx())
    assert.same({ "InvalidArgument", "induce" }, { envelope.error.kind, envelope.error.detail })
  end)

  local SECOND <const> = 1000000000
  local function induction(closing_s)
    local made = induce.new(42)
    made.opened_unix_ns, made.closed_unix_ns, made.completed = 10 * SECOND, 12 * SECOND, true
    made.closing_unix_ns = closing_s and closing_s * SECOND
    return made
  end
  local function trigger(s, thread, reason) return { unix_ns = math.floor(s * 1e9), thread = thread, reason = reason or 1 } end
  local function ours(_, thread) return thread == 7 end

  it("counts what the runtime's own thread asked for while the session was open, at its start and at its end", function()
    local made = induction(11)
    local result = made:result({ trigger(5, 7), trigger(10.1, 7), trigger(10.2, 8), trigger(10.3, 7, 0), trigger(11.2, 7),
      trigger(20, 7) }, ours)
    assert.same({ 2, 1, 1, "thread", true, 2000 }, { result.collections, result.collectionsAtStart, result.collectionsAtEnd,
      result.attribution, result.completed, result.sessionMs })
    assert.matches("2 of these collections were forced by this call %(1 at its start, 1 as its session ended%)", made:notes(result)[1])
  end)

  it("counts by time where threads cannot be told, and says when nothing came", function()
    local made = induction(nil)
    local result = made:result({ trigger(10.1, 99), trigger(10.2, 98), trigger(30, 99) }, function() return false end)
    assert.same({ 2, "time" }, { result.collections, result.attribution })
    assert.matches("InduceFailed", made:notes(made:result({}, ours))[1])
  end)
end)
