-- SPDX-License-Identifier: MIT
-- signal { … }: what is completed, what is refused, and how signals are found by kind of handle.
local declare = require("lunette.declare")
local log = require("lunette.log")
local signal = require("lunette.signal")

local function busy(more)
  local declared = {
    id = "orders.busy", handle = { "orders", "more-orders" }, emit_at = 10, buckets = 2, limits = { least = 1 },
    of = function(artifact, self, kind)
      if artifact.n < self.emit_at then return nil end
      return {
        salience = artifact.n / 10, summary = ("%d orders in %s, least %d."):format(artifact.n, kind, self.limits.least),
        buckets = { { key = "a", magnitude = 3, unit = "orders" }, { key = "b", magnitude = 2 }, { key = "c", magnitude = 1 } },
      }
    end,
    next = { view = { orders = "all", ["more-orders"] = "rest" }, reason = "See.", arguments = { topN = 5 } },
  }
  for k, v in pairs(more or {}) do declared[k] = v end
  return signal(declared)
end

-- What a signal gives, and what the log is told.
local function quietly(fn)
  local original, told = log.error, nil
  log.error = function(_, _, fields) told = fields.error end -- luacheck: ignore
  local ok, result = pcall(fn)
  log.error = original -- luacheck: ignore
  assert(ok, result)
  return result, told
end

describe("signal", function()
  it("completes what its function gave", function()
    local s = busy().of({ n = 20 }, "H", "more-orders")[1]
    assert.same({ "orders.busy", 1, 2 }, { s.signal, s.salience, #s.buckets })
    assert.equal("20 orders in more-orders, least 1.", s.summary)
    assert.same({ key = "a", magnitude = 3, unit = "orders", handle = "H" }, s.buckets[1])
    assert.same({ handle = "H", view = "rest", topN = 5 }, s.nextAction.suggestedArguments)
    assert.equal("all", busy().of({ n = 20 }, "H")[1].nextAction.suggestedArguments.view)
    assert.same({}, busy().of({ n = 9 }, "H"))
  end)

  it("is changed by its fields, as extend does it", function()
    local changed = declare.extend(busy(), { emit_at = 5, limits = { least = 4 } })
    local s = changed.of({ n = 7 }, "H")[1]
    assert.equal("7 orders in orders, least 4.", s.summary)
    assert.same({}, busy().of({ n = 7 }, "H"))
  end)

  it("is silent when its function fails or gives what is no signal, and the log says why", function()
    local list, told = quietly(function() return busy({ of = function() error("oh") end }).of({ n = 1 }) end)
    assert.same({}, list)
    assert.is_truthy(told:find("oh", 1, true))
    for wanted, given in pairs { summary = {}, salience = { summary = "s" }, buckets = { summary = "s", salience = 1 },
      magnitude = { summary = "s", salience = 1, buckets = { { key = "k" } } } } do
      list, told = quietly(function() return busy({ of = function() return given end }).of({ n = 1 }) end)
      assert.same({}, list)
      assert.is_truthy(told:find(wanted, 1, true), told)
    end
    assert.is_nil(select(2, quietly(function() return busy({ of = function() return nil end }).of({ n = 1 }) end)))
  end)

  it("refuses a declaration that is none, and names the field that was meant", function()
    local ok, why = pcall(busy, { emitat = 3 })
    assert.is_false(ok)
    assert.is_truthy(tostring(why):find('Did you mean "emit_at"', 1, true), why)
  end)

  it("cuts long names of a target without splitting a character", function()
    local s = busy { of = function() return { salience = 1, summary = "s", buckets = { { key = ("ä"):rep(400), magnitude = 1 } } } end }
    local key = s.of({ n = 1 })[1].buckets[1].key
    assert.is_true(#key <= 300 and utf8.len(key) ~= nil)
  end)
end)

describe("the signals of a capture", function()
  local counts = { total = 60, by_type = { { type = "T", n = 60 } } }

  it("are those that are declared for its kind of handle", function()
    local list = signal.of_capture("exception-snapshot", counts, "H")
    assert.same({ 1, "exceptions.by-type", "byType" }, { #list, list[1].signal, list[1].nextAction.suggestedArguments.view })
    assert.same({}, signal.of_capture("no-such-kind", counts, "H"))
  end)

  it("come behind what its collector said itself, and never twice", function()
    local own = { { signal = "exceptions.by-type", summary = "mine" }, { signal = "other" } }
    local list = signal.of_capture("exception-snapshot", counts, "H", own)
    assert.same({ 2, "mine" }, { #list, list[1].summary })
  end)

  it("can be asked for by their id", function()
    assert.is_true(signal.stands_out("exceptions.by-type", counts))
    assert.is_false(signal.stands_out("exceptions.by-type", { total = 1, by_type = { { type = "T", n = 1 } } }))
    assert.is_false(signal.stands_out("no.such", counts))
  end)
end)
