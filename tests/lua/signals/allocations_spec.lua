-- SPDX-License-Identifier: MIT
local signals = require("signals.allocations")

local function rows(...)
  local list = {}
  for i, pair in ipairs { ... } do list[i] = { key = pair[1], bytes = pair[2] } end
  return list
end

describe("signals.allocations #unit", function()
  it("names the leading type, with its share as salience", function()
    local list = signals.of(signals.BY_TYPE, rows({ "A", 600 }, { "B", 300 }, { "C", 100 }), { bytes = 1000, samples = 50 }, "h", "summary")
    local s = list[1]
    assert.same({ "allocations.by-type", 0.6, 3 }, { s.signal, s.salience, #s.buckets })
    assert.same({ "A", 600, "bytes", "h" }, { s.buckets[1].key, s.buckets[1].magnitude, s.buckets[1].unit, s.buckets[1].handle })
    assert.same({ "query_snapshot", "summary" }, { s.nextAction.nextTool, s.nextAction.suggestedArguments.view })
    assert.matches("60 %", s.summary, 1, true)
  end)

  it("is silent when bytes are spread, when little was sampled, and when there is nothing", function()
    local spread = rows({ "A", 290 }, { "B", 280 }, { "C", 280 })
    assert.same({}, signals.of(signals.BY_TYPE, spread, { bytes = 1000, samples = 50 }, "h", "summary"))
    assert.same({}, signals.of(signals.BY_SITE, rows({ "A", 900 }), { bytes = 1000, samples = 19 }, "h", "bySite"))
    assert.same({}, signals.of(signals.BY_SITE, {}, { bytes = 0, samples = 0 }, "h", "bySite"))
  end)

  it("never makes a bucket of what has no name", function()
    local total = { bytes = 1000, samples = 50 }
    assert.same({}, signals.of(signals.BY_SITE, rows({ signals.UNKNOWN, 900 }, { "B", 100 }), total, "h", "bySite"))
    local s = signals.of(signals.BY_SITE, rows({ signals.UNKNOWN, 500 }, { "B", 400 }), total, "h", "bySite")[1]
    assert.same({ 1, "B" }, { #s.buckets, s.buckets[1].key })
  end)

  it("keeps five buckets", function()
    local many = rows({ "A", 500 }, { "B", 100 }, { "C", 100 }, { "D", 100 }, { "E", 100 }, { "F", 100 })
    assert.equal(5, #signals.of(signals.BY_TYPE, many, { bytes = 1000, samples = 50 }, "h", "summary")[1].buckets)
  end)
end)
