-- SPDX-License-Identifier: MIT
-- Intervals of the System.Runtime EventCounters: all nine of one cycle, never values of two cycles put together.
local counters = require("collectors.runtime_metrics.counters")

local CYCLE <const> = {
  { "gc-heap-size", 12.5 }, { "gen-0-size", 100 }, { "gen-1-size", 200 }, { "gen-2-size", 300 }, { "loh-size", 400 }, { "poh-size", 500 },
  { "gc-committed", 20.25 }, { "gc-fragmentation", 4 }, { "alloc-rate", 3000 },
}

local function new()
  local list = {}
  return counters.new { on_interval = function(i) list[#list + 1] = i end }, list
end

local function event(name, number, at_s, seconds)
  local payload = { Name = name, IntervalSec = seconds or 1, Series = "Interval=1000" }
  payload[name == "alloc-rate" and "Increment" or "Mean"] = number
  return { provider = "System.Runtime", name = "EventCounters", time_ns = math.floor(at_s * 1e9), unix_ns = math.floor(at_s * 1e9),
    fields = { Payload = payload } }
end

local function cycle(c, at_s, options)
  options = options or {}
  for k, counter in ipairs(CYCLE) do
    if counter[1] ~= options.without then
      c:add(event(counter[1], counter[2] * (options.factor or 1), at_s + k / 1000, options.seconds))
    end
  end
end

describe("collectors.runtime_metrics.counters #unit", function()
  it("gives the nine values of a cycle: decimal megabytes as bytes, the percentage of the same cycle's heap, bytes a second", function()
    local c, list = new()
    cycle(c, 1, { seconds = 1.5 })
    local i = list[1]
    assert.same({ 12500000, 100, 200, 300, 400, 500 }, { i.heap, i.gen0, i.gen1, i.gen2, i.loh, i.poh })
    assert.same({ 20250000, 500000, 2000, 1.5 }, { i.committed, i.fragmentation, i.allocation_rate, i.seconds })
    assert.equal("integer", math.type(i.heap))
  end)

  it("gives one interval a cycle", function()
    local c, list = new()
    for at = 1, 3 do cycle(c, at) end
    assert.same({ 3, 0 }, { #list, c.discarded })
  end)

  it("discards a cycle that lacks a counter, and never takes that counter from the next", function()
    for _, counter in ipairs(CYCLE) do
      local c, list = new()
      cycle(c, 1, { without = counter[1] })
      cycle(c, 2, { factor = 2 })
      assert.same({ 1, 1 }, { #list, c.discarded }, counter[1])
      assert.equal(25000000, list[1].heap)
      assert.equal(200, list[1].gen0)
      assert.equal(6000, list[1].allocation_rate)
    end
  end)

  it("starts anew when a counter repeats within a cycle", function()
    local c, list = new()
    c:add(event("gc-heap-size", 1, 1))
    c:add(event("gen-0-size", 1, 1.001))
    cycle(c, 1.01)
    assert.same({ 1, 1, 12500000, 100 }, { #list, c.discarded, list[1].heap, list[1].gen0 })
  end)

  it("leaves out the stump that enabling leaves, other counters, and what is no number", function()
    local c, list = new()
    cycle(c, 0.01, { seconds = 0.003 })
    assert.same({ 0, 0 }, { #list, c.discarded })
    c:add(event("cpu-usage", 50, 1))
    c:add(event("gen-0-size", 0 / 0, 1))
    c:add({ provider = "System.Runtime", name = "EventCounters", time_ns = 0, unix_ns = 0, fields = {} })
    c:add({ provider = "Other", name = "EventCounters", time_ns = 0, unix_ns = 0, fields = event("gen-0-size", 9, 1).fields })
    cycle(c, 1)
    assert.same({ 1, 100 }, { #list, list[1].gen0 })
  end)

  it("takes a shorter interval, which another client asked for", function()
    local c, list = new()
    for at = 1, 3 do
      for k, counter in ipairs(CYCLE) do
        local e = event(counter[1], counter[2], at / 10 + k / 10000, 0.1)
        e.fields.Payload.Series = "Interval=100"
        c:add(e)
      end
    end
    assert.same({ 3, 30000 }, { #list, list[1].allocation_rate })
  end)
end)
