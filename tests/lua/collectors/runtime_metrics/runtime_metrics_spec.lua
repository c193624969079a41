-- SPDX-License-Identifier: MIT
-- runtime-metrics over a recording of EventCounters, and its shapes and views over made-up intervals.
local asked = require("support.asked")
local collect_events = require("tools.collect_events")
local handles = require("lunette.handles")
local json = require("lunette.json")
local kit = require("support.framework_kit")
local sys = require("lunette.sys")
local wire = require("collectors.runtime_metrics.wire")

local function call(file, more)
  local ctx, arguments = kit.ctx(), { kind = "runtime-metrics", traceFilePath = sys.home .. "/tests/data/" .. file }
  ctx.transport = "cli"
  for name, value in pairs(more or {}) do arguments[name] = value end
  local envelope = kit.call(collect_events, arguments, ctx)
  assert.is_nil(envelope.error)
  assert(kit.conforms(envelope, collect_events))
  return envelope.data.runtimeMetrics, envelope
end

local function by_metric(rows)
  local set = {}
  for _, row in ipairs(rows) do set[row.metric] = row end
  return set
end

local NAMES <const> = { "heap", "gen0", "gen1", "gen2", "loh", "poh", "committed", "fragmentation", "allocationRate" }

--- n intervals, a second each, whose values are k times those of the first.
local function artifact(n, more)
  local a = {
    process_id = 42, started_unix_ms = 1764484800000, duration_ms = n * 1000, source = "meter", interval_s = 1, intervals = {}, dropped = 0,
    discarded = 0, notes = {}, origin = "trace", age_s = 0.1, stale = "too old", unmeasured = "never told",
  }
  for k = 1, n do
    a.intervals[k] = {
      end_ns = k * 1000000000, end_unix_ns = 1764484800000000000 + k * 1000000000, seconds = 1.0, heap = 150 * k, gen0 = 10 * k,
      gen1 = 20 * k, gen2 = 30 * k,
      loh = 40 * k, poh = 50 * k, committed = 500 * k, fragmentation = 15 * k, allocation_rate = k > 1 and 1000 * k or nil,
    }
  end
  a.current = a.intervals[n]
  for key, value in pairs(more or {}) do a[key] = value end
  return a
end

describe("collectors.runtime_metrics", function()
  it("reads whole cycles of a recorded session of EventCounters", function()
    local data = call("demo.nettrace", { depth = "Detail" })
    assert.equal("eventCounters", data.source)
    assert.is_true(data.intervals >= 14 and data.intervals <= 16) -- 15 s, an interval a second
    assert.equal(data.intervals, #data.timeline)
    assert.equal(0, data.discardedIntervals)
    local newest = data.timeline[#data.timeline]
    assert.same(newest, data.current)
    for _, name in ipairs { "heapBytes", "gen0Bytes", "gen2Bytes", "committedBytes", "fragmentationBytes", "allocatedBytesPerSecond" } do
      assert.is_number(newest[name], name)
    end
    assert.near(1, newest.seconds, 0.1)
  end)

  it("says the same as the counters of the same session", function()
    local ctx = kit.ctx()
    ctx.transport = "cli"
    local counters = kit.call(collect_events,
      { kind = "counters", traceFilePath = sys.home .. "/tests/data/demo.nettrace", depth = "Detail" }, ctx).data.counters.counters
    local function last(name)
      for _, c in ipairs(counters) do
        if c.provider == "System.Runtime" and c.name == name then return c.value end
      end
    end
    local m = by_metric(call("demo.nettrace").metrics)
    assert.near(last("gc-heap-size") * 1000000, m.heap.last, 1)
    assert.near(last("gc-committed") * 1000000, m.committed.last, 1)
    assert.near(last("gc-fragmentation") / 100 * m.heap.last, m.fragmentation.last, 1)
    assert.near(last("gen-2-size"), m.gen2.last, 1)
    assert.near(last("loh-size"), m.loh.last, 1)
    assert.near(last("alloc-rate"), m.allocationRate.last, last("alloc-rate") * 0.05)
  end)

  it("always has nine metrics, in order, with unit and course", function()
    local rows = wire.metrics(artifact(3))
    for i, name in ipairs(NAMES) do assert.equal(name, rows[i].metric) end
    local m = by_metric(rows)
    assert.same({ "bytes", 450, 150, 150, 450, 300, 3 },
      { m.heap.unit, m.heap.last, m.heap.first, m.heap.min, m.heap.max, m.heap.mean, m.heap.intervals })
    assert.same({ "bytes/s", 3000, 2000, 2 },
      { m.allocationRate.unit, m.allocationRate.last, m.allocationRate.first, m.allocationRate.intervals })
  end)

  it("gives no current value when the newest interval is too old, and says why", function()
    local old = artifact(3)
    old.current = nil
    local m = by_metric(wire.metrics(old))
    assert.is_nil(m.heap.last)
    assert.equal("too old", m.heap.reason)
    assert.equal(450, m.heap.max) -- its course is still told
  end)

  it("gives a reason and no zero for what was never told", function()
    local m = by_metric(wire.metrics(artifact(1)))
    assert.is_nil(m.allocationRate.last)
    assert.is_nil(m.allocationRate.mean)
    assert.same({ 0, "never told" }, { m.allocationRate.intervals, m.allocationRate.reason })
    assert.is_nil(m.heap.reason)
  end)

  it("answers in short without the timeline, which the handle keeps", function()
    local data, envelope = call("demo.nettrace")
    assert.equal(0, #data.timeline)
    assert.matches("Inline:", table.concat(data.notes, "\n"))
    assert.is_true(#json.encode(envelope) <= 16384)
    local kept = assert(handles.get(envelope.handle)).artifact
    local view = asked.view("runtime-metrics-snapshot", kept, "timeline")
    assert.same({ data.intervals, data.intervals }, { view.intervals, #view.timeline })
  end)

  it("has views: all nine values, and the newest topN intervals in order of time", function()
    local a = artifact(5)
    local summary = asked.view("runtime-metrics-snapshot", a, "summary")
    assert.same({ 9, 5, 750 }, { #summary.metrics, summary.intervals, summary.current.heapBytes })
    local timeline = asked.view("runtime-metrics-snapshot", a, "timeline", { topN = 2 })
    assert.same({ 2, 600, 750 }, { timeline.returned, timeline.timeline[1].heapBytes, timeline.timeline[2].heapBytes })
  end)

  it("says of a recording without such values that there are none", function()
    local data = call("recordings/throw.nettrace")
    assert.same({ 0, "none" }, { data.intervals, data.source })
    assert.is_nil(data.current)
    assert.matches("NoInterval", table.concat(data.notes, "\n"))
    for _, row in ipairs(data.metrics) do assert.is_string(row.reason) end
  end)

  it("hints at what allocates when much is allocated", function()
    local hints_kit = require("support.hints_kit")
    local function hints(current, pid) return hints_kit.of("runtime-metrics-snapshot", { current = current }, "h", pid) end
    local busy = { allocation_rate = 60000000, heap = 1000, fragmentation = 10, loh = 0 }
    assert.equal("allocations-sampled", hints(busy, 42)[1].suggestedArguments.kind)
    assert.equal("high", hints(busy, 42)[1].priority)
    local fragmented = { allocation_rate = 1, heap = 200000000, fragmentation = 70000000, loh = 0 }
    assert.equal("inspect_heap", hints(fragmented, 42)[1].nextTool)
    local quiet = hints({ allocation_rate = 1, heap = 1000, fragmentation = 1, loh = 0 }, 42)
    assert.same({ "query_snapshot", "timeline", "normal" }, { quiet[1].nextTool, quiet[1].suggestedArguments.view, quiet[1].priority })
    assert.equal(2, #hints(nil, nil))
  end)
end)
