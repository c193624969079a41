-- SPDX-License-Identifier: MIT
-- allocations.by-type and allocations.by-site: what leads, and silence where nothing does or little was sampled.
local both = require("signals.allocations")
local by_type, by_site = both[1], both[2]

local UNKNOWN <const> = "<unknown>"

local function rows(field, ...)
  local list = {}
  for i, pair in ipairs { ... } do list[i] = { [field] = pair[1], estimate = { bytes = pair[2] } } end
  return list
end

local function types(samples, ...)
  return { total = { bytes = 1000, samples = samples }, types = rows("name", ...), sites = {} }
end

local function sites(samples, ...)
  return { total = { bytes = 1000, samples = samples }, sites = rows("method", ...), types = {} }
end

describe("signals.allocations #unit", function()
  it("names the leading type, with its share as salience", function()
    local s = by_type.of(types(50, { "A", 600 }, { "B", 300 }, { "C", 100 }), "h")[1]
    assert.same({ "allocations.by-type", 0.6, 3 }, { s.signal, s.salience, #s.buckets })
    assert.same({ "A", 600, "bytes", "h" }, { s.buckets[1].key, s.buckets[1].magnitude, s.buckets[1].unit, s.buckets[1].handle })
    assert.same({ "query_snapshot", "summary" }, { s.nextAction.nextTool, s.nextAction.suggestedArguments.view })
    assert.matches("60 %", s.summary, 1, true)
  end)

  it("is silent when bytes are spread, when little was sampled, and when there is nothing", function()
    assert.same({}, by_type.of(types(50, { "A", 290 }, { "B", 280 }, { "C", 280 }), "h"))
    assert.same({}, by_site.of(sites(19, { "A", 900 }), "h"))
    assert.same({}, by_site.of({ total = { bytes = 0, samples = 0 }, sites = {}, types = {} }, "h"))
  end)

  it("never makes a bucket of what has no name", function()
    assert.same({}, by_site.of(sites(50, { UNKNOWN, 900 }, { "B", 100 }), "h"))
    local s = by_site.of(sites(50, { UNKNOWN, 500 }, { "B", 400 }), "h")[1]
    assert.same({ 1, "B", "bySite" }, { #s.buckets, s.buckets[1].key, s.nextAction.suggestedArguments.view })
  end)

  it("keeps five buckets, and cuts a long name without splitting a character", function()
    local many = types(50, { ("ä"):rep(200), 500 }, { "B", 100 }, { "C", 100 }, { "D", 100 }, { "E", 100 }, { "F", 100 })
    local s = by_type.of(many, "h")[1]
    assert.equal(5, #s.buckets)
    assert.is_true(#s.buckets[1].key <= 120 and utf8.len(s.buckets[1].key) ~= nil)
  end)
end)
