-- SPDX-License-Identifier: MIT
-- exceptions.by-type and exceptions.by-throw-site: what leads, and silence where nothing does.
local by_throw_site = require("signals.exceptions_by_throw_site")
local by_type = require("signals.exceptions_by_type")

local function counts(...)
  local list, total = {}, 0
  for i, n in ipairs { ... } do
    list[i] = { type = "T" .. i, n = n }
    total = total + n
  end
  return { total = total, by_type = list }
end

local function sites(total, ...)
  local a = { total = total, resolved = 0, sites = {} }
  for i, n in ipairs { ... } do
    a.sites[i] = { type = "T", frame = "F" .. i, n = n }
    a.resolved = a.resolved + n
  end
  return a
end

describe("signals.exceptions_by_type", function()
  it("names the leading type with its share, and at most five types", function()
    local list = by_type.of(counts(60, 10, 10, 8, 6, 4, 2), "H1")
    assert.equal(1, #list)
    local s = list[1]
    assert.same({ "exceptions.by-type", 0.6, 5, "T1", 60, "exceptions", "H1" },
      { s.signal, s.salience, #s.buckets, s.buckets[1].key, s.buckets[1].magnitude, s.buckets[1].unit, s.buckets[1].handle })
    assert.equal("60 % of 100 exceptions are of one type of 7: T1.", s.summary)
    assert.same({ handle = "H1", view = "byType" }, s.nextAction.suggestedArguments)
  end)

  it("shows the view of the kind of handle that it was found in", function()
    assert.equal("summary", by_type.of(counts(60), "H1", "crash-guard-snapshot")[1].nextAction.suggestedArguments.view)
  end)

  it("is silent for none, for few, and for many that are spread thin", function()
    assert.same({}, by_type.of(counts(), "H1"))
    assert.same({}, by_type.of(counts(4), "H1"))
    assert.same({}, by_type.of(counts(49, 30, 21), "H1"))
    assert.equal(1, #by_type.of(counts(5), "H1"))
  end)
end)

describe("signals.exceptions_by_throw_site", function()
  it("names the leading site with its share of what has a stack, not of all", function()
    local s = by_throw_site.of(sites(1000, 6, 3, 1), "H1")[1]
    assert.same({ "exceptions.by-throw-site", 0.6, "T @ F1", 6, "exceptions" },
      { s.signal, s.salience, s.buckets[1].key, s.buckets[1].magnitude, s.buckets[1].unit })
    assert.equal("60 % of the 10 exceptions with a resolved stack (of 1000) come from one place: T @ F1.", s.summary)
    assert.same({ handle = "H1", view = "exceptions" }, s.nextAction.suggestedArguments)
  end)

  it("is silent without resolved stacks, for few, and for many places", function()
    assert.same({}, by_throw_site.of(sites(1000), "H1"))
    assert.same({}, by_throw_site.of(sites(2, 2), "H1"))
    assert.same({}, by_throw_site.of(sites(100, 40, 30, 30), "H1"))
  end)
end)
