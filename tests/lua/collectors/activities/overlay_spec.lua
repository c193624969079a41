-- SPDX-License-Identifier: MIT
-- Pauses over spans, both made by hand: what each span lost, what is a lower bound, and which captures may be laid over each other.
local gc_kit = require("support.gc_kit")
local handles = require("lunette.handles")
local kit = require("support.framework_kit")
local overlay = require("collectors.activities.overlay")
local query_snapshot = require("tools.query_snapshot")
local sys = require("lunette.sys")
local view = require("lunette.view")

local MS <const> = 1000000
local UNIX <const> = 1764484800000 * MS
local MONO <const> = 5000 * MS

view.register(assert(loadfile(sys.home .. "/lua/views/activities/gc-overlay.lua"))())

-- { from, to } in ms since the capture's start; nil as `to`: not told.
local function activities(list, more)
  local spans = {}
  for i, s in ipairs(list) do
    spans[i] = {
      source = "S", operation = "span" .. i, id = "id" .. i, trace_id = "t", span_id = "s" .. i,
      start_unix_ns = UNIX + math.floor(s[1] * MS),
      took_ns = s[2] and math.floor((s[2] - s[1]) * MS) or nil, end_ns = math.floor((s[2] or s[1]) * MS), tags = {}, ordinal = i,
    }
  end
  local artifact = {
    process_id = 42, started_unix_ms = UNIX // MS, duration_ms = 1000, spans = spans,
    retention = { observed = #spans, matching = #spans, retained = #spans, cap = 200 }, start_unix_ns = UNIX, start_mono_ns = MONO,
    clock_offset = UNIX, lost = 0, notes = {}, origin = "live",
  }
  for name, value in pairs(more or {}) do artifact[name] = value end
  return artifact
end

local function gc(marks, more, facts, max_rows)
  local s = gc_kit.run(marks, facts, max_rows)
  local artifact = {
    process_id = 42, started_unix_ms = UNIX // MS, duration_ms = 1000, start_unix_ns = UNIX, start_mono_ns = MONO,
    collections = s.collections, suspensions = s.suspensions, heap = { rows = {}, dropped = 0 }, notes = {}, origin = "live",
  }
  for name, value in pairs(more or {}) do artifact[name] = value end
  return artifact
end

-- Pauses of exactly `long` ms that begin at `ms`.
local function pauses(...)
  local lists = {}
  for i, p in ipairs { ... } do lists[i] = gc_kit.blocking(i, p[1] - 0.1, p[2], { depth = i - 1 }) end
  return gc_kit.join(table.unpack(lists))
end

-- "operation: ms (percent) lower?" of each.
local function told(result)
  local rows = {}
  for i, item in ipairs(result.impacted) do
    rows[i] = ("%s %.1f %.1f%%%s"):format(item.span.operation, item.ns / MS, item.percent, item.lower_bound and " at least" or "")
  end
  return rows
end

describe("collectors.activities.overlay", function()
  it("gives each span the part of the pauses that it lasted through", function()
    local result = overlay.of(activities { { 100, 200 }, { 300, 400 }, { 150, 350 }, { 500, 600 } }, gc(pauses({ 190, 20 }, { 310, 10 })))
    assert.same({ "span3 30.0 15.0%", "span1 10.0 10.0%", "span2 10.0 10.0%" }, told(result))
    assert.same({ "available", 50 * MS, 30 * MS, 2, 0 },
      { result.status, result.overlap_ns, result.pause_ns, result.collections, result.invalid })
    assert.equal(0, result.omitted)
  end)

  it("says which collection a pause was of, and never 0 for none", function()
    local marks = pauses({ 100, 10 }, { 200, 10 })
    local extra = { { "begin", 300, { reason = 6, count = 2 } }, { "suspended", 300.1 }, { "restart", 310.1 }, { "resumed", 310.2 } }
    local result = overlay.of(activities { { 50, 400 } }, gc(gc_kit.join(marks, extra)))
    local words = {}
    for i, hit in ipairs(result.impacted[1].hit) do
      local generation, reason = overlay.called(hit.pause)
      words[i] = ("%s %s"):format(tostring(generation), reason)
    end
    assert.same({ "0 AllocSmall", "1 AllocSmall", "nil GCPrep" }, words)
  end)

  it("counts spans that took no time, or do not tell, apart", function()
    local result = overlay.of(activities { { 100, 100 }, { 100, nil }, { 100, 200 } }, gc(pauses({ 100, 10 })))
    assert.same({ 2, { "span3 10.0 10.0%" } }, { result.invalid, told(result) })
  end)

  it("makes lower bounds of spans that leave the common window", function()
    local late = gc(pauses({ 100, 10 }), { start_mono_ns = MONO + 50 * MS })
    local result = overlay.of(activities { { 10, 300 }, { 150, 300 } }, late) -- the pause is at 150 of the spans' time
    assert.same({ "span2 10.0 6.7%", "span1 10.0 3.4% at least" }, told(result))
  end)

  it("makes lower bounds of spans that end after the last pause that was kept, and says how many are missing", function()
    local capped = gc(pauses({ 100, 10 }, { 200, 10 }, { 300, 10 }), nil, nil, 1)
    capped.suspensions.longest = {}
    local result = overlay.of(activities { { 90, 110 }, { 90, 400 } }, capped)
    assert.same({ "span1 10.0 50.0%", "span2 10.0 3.2% at least" }, told(result))
    assert.equal(2, result.omitted)
    assert.is_truthy(table.concat(result.flags, " "):find("pause-details-capped", 1, true))
  end)

  it("uses the longest pauses too, though they are beyond those kept in order", function()
    local result = overlay.of(activities { { 0, 500 } }, gc(pauses({ 100, 10 }, { 200, 10 }, { 300, 10 }), nil, nil, 1))
    assert.same({ 30 * MS, 0 }, { result.overlap_ns, result.omitted })
  end)

  it("has no numbers when the pauses are not reliable", function()
    local result = overlay.of(activities { { 100, 200 } }, gc(pauses({ 100, 10 }), nil, { lost = 5 }))
    assert.same({ "unavailable", 0 }, { result.status, #result.impacted })
    assert.is_nil(result.overlap_ns)
    assert.is_nil(result.pause_ns)
    assert.is_truthy(table.concat(result.flags, " "):find("gc:transport-loss", 1, true))
  end)

  it("lays sessions over each other by the clock of the events, whatever the wall clock says", function()
    local other = gc(pauses({ 100, 10 }), { start_mono_ns = MONO + 20 * MS, start_unix_ns = UNIX + 999 * MS })
    assert.same({ "span1 10.0 50.0%" }, told(overlay.of(activities { { 115, 135 } }, other)))
  end)

  it("falls back to the wall clock and says so", function()
    local result = overlay.of(activities({ { 100, 120 } }, { start_mono_ns = false, clock_offset = false }),
      gc(pauses({ 100, 10 }), { start_mono_ns = false }))
    assert.same({ "span1 10.0 50.0%" }, told(result))
    assert.equal("wall-clock-alignment", result.flags[1])
  end)

  it("is nothing without a common time", function()
    assert.is_nil(overlay.of(activities { { 1, 2 } }, gc(pauses({ 100, 10 }), { start_mono_ns = MONO + 2000 * MS })))
  end)
end)

describe("views.activities.gc-overlay", function()
  local function put(kind, artifact, more)
    local handle = { kind = kind, artifact = artifact, origin = artifact.origin, process_id = artifact.process_id, started_unix_ms = 1,
      duration_ms = 1000 }
    for name, value in pairs(more or {}) do handle[name] = value end
    return handles.put(handle).id
  end

  local function ask(a, g, more) -- recordings: their process need not run
    a.origin, g.origin = "trace", "trace"
    local gc_handle = put("gc-events", g, more and more.g)
    local arguments = { handle = put("activities", a, more and more.a), view = "gc-overlay", gcHandle = gc_handle }
    for name, value in pairs(more and more.arguments or {}) do arguments[name] = value end
    local envelope = kit.call(query_snapshot, arguments)
    if envelope.data then assert(kit.conforms(envelope, nil, "activities", "gc-overlay")) end
    return envelope.data and envelope.data.payload, envelope
  end

  local function two() return activities { { 100, 200 }, { 150, 250 }, { 400, 500 } }, gc(pauses({ 160, 20 })) end

  it("answers spans by their share of pauses, sums of span time, and what is known of the two captures", function()
    local payload = ask(two())
    assert.same({ 3, 3, 2, 2, 40, 1, 20, "available", "complete", "unknown", 0, 0 }, {
      payload.totalActivities, payload.completedActivities, payload.impactedCount, payload.returnedCount, payload.totalGcOverlapMs,
      payload.totalGcCollections, payload.totalGcPauseMs, payload.measurementStatus, payload.candidateSelection,
      payload.lifetimeCompatibility, payload.inputOmittedPauseIntervals, payload.invalidSpanCount,
    })
    local first = payload.impactedActivities[1]
    assert.same({ "span1", 100, 20, 20, false },
      { first.operationName, first.durationMs, first.gcPauseMs, first.gcPausePercent, first.isLowerBound })
    assert.same({ { generation = 0, reason = "AllocSmall", type = "NonConcurrentGC", pauseDurationMs = 20, overlapMs = 20 } },
      first.gcEvents)
  end)

  it("cuts rows to topN without a change of the sums", function()
    local a, g = two()
    local payload = ask(a, g, { arguments = { topN = 1 } })
    assert.same({ 2, 1, 1, 40 }, { payload.impactedCount, payload.returnedCount, #payload.impactedActivities, payload.totalGcOverlapMs })
  end)

  it("gives 100 rows at most, whatever topN says", function()
    local list = {}
    for i = 1, 120 do list[i] = { 100 + i / 100, 200 } end
    local payload = ask(activities(list), gc(pauses({ 160, 20 })), { arguments = { topN = 1000 } })
    assert.same({ 120, 100, 100, 2400 },
      { payload.impactedCount, payload.returnedCount, #payload.impactedActivities, payload.totalGcOverlapMs })
  end)

  it("calls the candidates incomplete after a loss of spans, not after a filter", function()
    local a, g = two()
    a.retention.trace_id, a.retention.observed = "t", 100
    assert.equal("complete", (ask(a, g)).candidateSelection)
    a.retention.matching = 7
    assert.equal("incomplete", (ask(a, g)).candidateSelection)
  end)

  it("knows the process when both handles tell its start", function()
    local a, g = two()
    assert.equal("verified", (ask(a, g, { a = { process_start = 5 }, g = { process_start = 5 } })).lifetimeCompatibility)
    local _, envelope = ask(a, g, { a = { process_start = 5 }, g = { process_start = 6 } })
    assert.same({ "InvalidArgument", "gcHandle" }, { envelope.error.kind, envelope.error.detail })
  end)

  it("refuses another process, another kind, another time, a recording beside a live one, and a handle that is not there", function()
    local function refused(envelope, kind) assert.equal(kind, assert.is_table(envelope.error).kind) end
    local a, g = two()
    refused(select(2, ask(a, g, { g = { process_id = 43 } })), "InvalidArgument")
    refused(select(2, ask(a, g, { arguments = { gcHandle = put("activities", a) } })), "InvalidHandle")
    refused(select(2, ask(a, g, { arguments = { gcHandle = "AAAAAAAAAAAAAAAAAAAA" } })), "HandleNotFound")
    local _, missing = ask(a, g, { arguments = { gcHandle = "" } })
    assert.is_table(missing.error)
    g.start_mono_ns = MONO + 5000 * MS
    refused(select(2, ask(a, g)), "InvalidArgument")
  end)

  it("says unavailable and gives null, not 0", function()
    local payload = ask(activities { { 100, 200 } }, gc(pauses({ 100, 10 }), nil, { lost = 1 }))
    assert.same({ "unavailable", 0, 0 }, { payload.measurementStatus, payload.impactedCount, #payload.impactedActivities })
    assert.is_nil(payload.totalGcOverlapMs)
    assert.is_nil(payload.totalGcPauseMs)
  end)
end)
