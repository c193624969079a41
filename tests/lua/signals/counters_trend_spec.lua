-- SPDX-License-Identifier: MIT
-- counters.trend: the counter that moved most, by the relative formula.
local trend = require("signals.counters_trend")
local series = require("collectors.counters.series")

local function counter(name, unit, ...)
  local c = { provider = "P", name = name, unit = unit, series = series.new() }
  for _, value in ipairs { ... } do series.add(c.series, value) end
  return c
end

describe("signals.counters_trend", function()
  --- The relative change of a counter that goes from one value to another, when it stands out.
  local function change(unit, first, last)
    local list = trend.of { counters = { counter("c", unit, first, first, last) } }
    return list[1] and list[1].buckets[1].magnitude
  end

  it("divides the change by the larger end", function()
    assert.equal(0.75, change("%", 25, 100))
    assert.equal(-0.5, change("MB", 100, 50))
    assert.equal(-1.0, change(nil, 20, 0))
    assert.equal(1.0, change(nil, 0, 20))
  end)

  it("stays within -1 and 1 for rises and falls", function()
    assert.near(1, change(nil, 1, 1e9), 1e-8)
    assert.near(-1, change(nil, 1e9, 1), 1e-8)
    assert.is_nil(change(nil, 10, 12))
  end)

  it("is nothing while a value stays near zero", function()
    assert.is_nil(change("%", 0.1, 4))
    assert.is_nil(change("B", 1000, 900000))
    assert.is_nil(change(nil, 0, 9))
  end)

  it("names the counter that moved most and the others in buckets", function()
    local list = trend.of({ counters = {
      counter("queue", nil, 10, 20, 100), counter("cpu", "%", 50, 55, 52), counter("heap", "MB", 40, 30, 10),
    } }, "H1")
    assert.equal(1, #list)
    local s = list[1]
    assert.equal("counters.trend", s.signal)
    assert.equal(0.9, s.salience)
    assert.same({ "P/queue", "P/heap" }, { s.buckets[1].key, s.buckets[2].key })
    assert.same({ 0.9, -0.75 }, { s.buckets[1].magnitude, s.buckets[2].magnitude })
    assert.equal("H1", s.buckets[1].handle)
    assert.same({ handle = "H1", view = "byProvider" }, s.nextAction.suggestedArguments)
  end)

  it("does not take what looking costs an idle process for a movement of its own", function()
    assert.same({}, trend.of({ counters = {
      counter("methods-jitted-count", nil, 70, 150, 250), counter("time-in-jit", "ms", 170, 40, 0),
    } }, "H1"))
    assert.equal(1, #trend.of({ counters = { counter("methods-jitted-count", nil, 700, 1500, 2500) } }, "H1"))
  end)

  it("weighs the time of compilation by how many methods it was for: on a busy machine few take long", function()
    local function told(methods, ms)
      local counters = { counter("time-in-jit", "ms", 9, 40, ms) }
      if methods then counters[2] = counter("methods-jitted-count", nil, methods, methods, methods) end
      return #trend.of({ counters = counters }, "H1")
    end
    assert.same({ 0, 1, 0, 1, 0, 1 },
      { told(250, 1999), told(250, 2000), told(900, 749), told(900, 750), told(nil, 749), told(nil, 750) })
  end)

  it("gives none for a steady process", function()
    assert.same({}, trend.of({ counters = { counter("cpu", "%", 50, 55, 60), counter("heap", "MB", 10, 11, 12) } }, "H1"))
  end)

  it("wants more than two observations", function()
    assert.same({}, trend.of({ counters = { counter("queue", nil, 10, 100) } }, "H1"))
  end)

  it("has at most five buckets", function()
    local counters = {}
    for i = 1, 9 do counters[i] = counter("c" .. i, nil, 1, 50, 100) end
    assert.equal(trend.buckets, #trend.of({ counters = counters }, "H1")[1].buckets)
  end)
end)
