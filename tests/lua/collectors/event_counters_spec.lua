-- SPDX-License-Identifier: MIT
-- EventCounters: intervals, kinds, stumps, silence, caps.
local event_counters = require("collectors.counters.event_counters")

local SECOND <const> = 1000000000

local function mean(t, name, value, more)
  local payload = {
    Name = name, DisplayName = name:upper(), Mean = value, Count = 1, Min = value, Max = value, IntervalSec = 1.0, Series = "Interval=1000",
    CounterType = "Mean", Metadata = "", DisplayUnits = "%",
  }
  for k, v in pairs(more or {}) do payload[k] = v end
  return { provider = "System.Runtime", name = "EventCounters", time_ns = math.floor(t * SECOND), fields = { Payload = payload } }
end

local function sum(t, name, increment, more)
  local event = mean(t, name, nil, more)
  local p = event.fields.Payload
  p.Mean, p.Count, p.CounterType, p.Increment, p.DisplayUnits = nil, nil, "Sum", increment, ""
  return event
end

local function collect(events, interval_s)
  local ec = event_counters.new { providers = { "System.Runtime" }, interval_s = interval_s or 1 }
  for _, event in ipairs(events) do ec:add(event) end
  return ec, ec:finish()
end

describe("collectors.counters.event_counters", function()
  it("keeps the last value of each counter, sorted by name", function()
    local _, rows = collect { mean(1, "gen-0-size", 10), sum(1, "alloc-rate", 300), mean(2, "gen-0-size", 20), sum(2, "alloc-rate", 500) }
    assert.equal(2, #rows)
    assert.equal("alloc-rate", rows[1].name)
    assert.equal("Sum", rows[1].kind)
    assert.equal(500, rows[1].series.last)
    assert.is_nil(rows[1].unit)
    assert.equal("Mean", rows[2].kind)
    assert.equal(20, rows[2].series.last)
    assert.equal(10, rows[2].series.first)
    assert.equal("%", rows[2].unit)
    assert.equal("GEN-0-SIZE", rows[2].display_name)
  end)

  it("puts shorter intervals of another session together until its own is full", function()
    local events = {}
    for t = 1, 6 do
      events[#events + 1] = sum(t, "alloc-rate", 100 * t)
      events[#events + 1] = mean(t, "gen-0-size", t)
    end
    local _, rows = collect(events, 3)
    assert.equal(2, rows[1].series.n)
    assert.equal(600, rows[1].series.first)
    assert.equal(1500, rows[1].series.last)
    assert.equal(3.0, rows[1].interval_s)
    assert.equal(5, rows[2].series.last)
  end)

  it("lets an interval of its own length stand for itself, however early it came", function()
    local _, rows = collect {
      mean(0.7, "queue", 400, { IntervalSec = 0.7 }), mean(1.5, "queue", 500, { IntervalSec = 0.8 }),
      mean(2.4, "queue", 600, { IntervalSec = 0.9 }),
    }
    assert.same({ 3, 400, 600 }, { rows[1].series.n, rows[1].series.first, rows[1].series.last })
  end)

  it("leaves out the stump of an interval that enabling leaves", function()
    local ec, rows = collect { sum(0.01, "alloc-rate", 999999, { IntervalSec = 0.004 }), sum(1, "alloc-rate", 7) }
    assert.equal(1, ec.stumps)
    assert.equal(7, rows[1].series.first)
  end)

  it("does not take an EventCounter without a measurement for zero", function()
    local ec, rows = collect { mean(1, "written", 0, { Count = 0 }), mean(2, "written", 0, { Count = 0 }) }
    assert.equal(0, #rows)
    assert.same({ "System.Runtime/written" }, ec.without_value)
  end)

  it("keeps the last interval that was measured", function()
    local _, rows = collect { mean(1, "written", 20, { Count = 3 }), mean(2, "written", 0, { Count = 0 }) }
    assert.equal(20, rows[1].series.last)
  end)

  it("weighs sub-intervals by their number of values", function()
    local _, rows = collect({ mean(1, "written", 10, { Count = 1 }), mean(2, "written", 40, { Count = 3 }) }, 2)
    assert.equal(32.5, rows[1].series.last)
  end)

  it("counts values that are no numbers and does not show them", function()
    local ec, rows = collect { mean(1, "odd", 0 / 0), mean(2, "odd", math.huge), mean(3, "even", 2) }
    assert.equal(2, ec.not_finite)
    assert.equal(1, #rows)
    assert.equal("even", rows[1].name)
  end)

  it("leaves out the first reading of cpu-usage, which is about an older time", function()
    local _, rows = collect { mean(1, "cpu-usage", 0.03), mean(2, "cpu-usage", 48), mean(3, "cpu-usage", 50) }
    assert.same({ 2, 48, 50 }, { rows[1].series.n, rows[1].series.first, rows[1].series.last })
    local ec, none = collect { mean(1, "cpu-usage", 0.03) }
    assert.equal(0, #none)
    assert.same({ "System.Runtime/cpu-usage" }, ec.stale)
    assert.same({}, ec.without_value)
  end)

  it("sees a late interval as silence", function()
    local ec = collect { mean(1, "gen-0-size", 1), mean(5, "gen-0-size", 1, { IntervalSec = 4.0 }) }
    assert.equal(4.0, ec.providers["System.Runtime"].longest_s)
  end)

  it("is caught up when as many intervals as are over were told", function()
    local ec = event_counters.new { providers = { "System.Runtime" }, interval_s = 1 }
    assert.is_true(ec:caught_up(0.5))
    assert.is_false(ec:caught_up(1.2))
    ec:add(mean(1, "gen-0-size", 1))
    ec:add(mean(1, "working-set", 1))
    assert.is_true(ec:caught_up(1.2))
    assert.is_false(ec:caught_up(2.1))
    ec:add(mean(2, "gen-0-size", 1))
    assert.is_true(ec:caught_up(2.1))
  end)

  it("ignores providers that were not asked for and other events", function()
    local foreign = mean(1, "x", 1)
    foreign.provider = "Other"
    local other = mean(1, "x", 1)
    other.name = "ProcessorCount"
    local _, rows = collect { foreign, other }
    assert.equal(0, #rows)
  end)

  it("counts malformed payloads", function()
    local ec = collect { { provider = "System.Runtime", name = "EventCounters", time_ns = 1, fields = { Payload = {} } } }
    assert.equal(1, ec.malformed)
  end)

  it("caps the number of counters and counts what it drops", function()
    local events = {}
    for i = 1, event_counters.MAX_COUNTERS + 5 do events[i] = mean(1, "c" .. i, i) end
    local ec, rows = collect(events)
    assert.equal(event_counters.MAX_COUNTERS, #rows)
    assert.equal(5, ec.dropped)
  end)

  it("publishes a half-full interval when there is nothing else", function()
    local _, rows = collect({ sum(1, "alloc-rate", 40) }, 5)
    assert.equal(40, rows[1].series.last)
    assert.equal(1.0, rows[1].interval_s)
  end)
end)
