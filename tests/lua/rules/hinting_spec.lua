-- SPDX-License-Identifier: MIT
-- Hint rules made up here: conditions, order, what is added to arguments, gaps, functions, and what is wrong with one.
local here = debug.getinfo(1, "S").source:match("^@(.*/)")
local hinting = require("lunette.rules.hinting")
local index = require("lunette.rules.index")
local kit = dofile(here .. "kit.lua")

local function hints(rule, artifact, more)
  local capture = { artifact = artifact, handle_id = "H", process_id = 42 }
  for k, v in pairs(more or {}) do capture[k] = v or nil end
  local set = kit.hints({ rule })
  assert.same({}, set.problems)
  return hinting.of(set, rule.handle, capture)
end

local function rule(list, more)
  local r = { handle = "orders", hints = list }
  for k, v in pairs(more or {}) do r[k] = v end
  return r
end

local function tools(list)
  local out = {}
  for i, h in ipairs(list) do out[i] = h.nextTool end
  return out
end

describe("hint rules", function()
  it("give the hints whose conditions all hold, in their order", function()
    local r = rule {
      { when = { { field = "n", above = 10 } }, tool = "a", reason = "r" },
      { when = { { field = "n", above = 10 }, { field = "status", equals = "open" } }, tool = "b", reason = "r" },
      { when = { { any = { { field = "n", equals = 1 }, { field = "rows", count = true, at_least = 2 } } } }, tool = "c", reason = "r" },
      { when = { { field = "missing", measured = true } }, tool = "d", reason = "r" },
      { tool = "e", reason = "r" },
    }
    assert.same({ "a", "b", "c", "e" }, tools(hints(r, { n = 11, status = "open", rows = { 1, 2 } })))
    assert.same({ "a", "e" }, tools(hints(r, { n = 11, status = "shut", rows = {} })))
    assert.same({ "e" }, tools(hints(r, {})))
  end)

  it("give otherwise only when nothing before held", function()
    local r = rule { { when = { { field = "n", above = 1 } }, tool = "a", reason = "r" }, { otherwise = true, tool = "b", reason = "r" } }
    assert.same({ "a" }, tools(hints(r, { n = 2 })))
    assert.same({ "b" }, tools(hints(r, { n = 1 })))
  end)

  it("name the handle for query_snapshot and the process for the others, and leave live ones out of recordings", function()
    local r = rule {
      { tool = "query_snapshot", arguments = { view = "all" }, reason = "r" }, { tool = "collect_events", reason = "r" },
      { tool = "collect_sample", live = true, reason = "r" },
    }
    local list = hints(r, {})
    assert.same({ handle = "H", view = "all" }, list[1].suggestedArguments)
    assert.same({ processId = 42 }, list[2].suggestedArguments)
    assert.equal(3, #list)
    list = hints(r, {}, { process_id = false })
    assert.equal(2, #list)
    assert.is_nil(list[2].suggestedArguments)
  end)

  it("fill the gaps of a reason with the first number that was compared", function()
    local r = rule { { when = { { field = "status", equals = "x" }, { field = "ms", above = 100 } }, tool = "a",
      reason = "{value:%.0f} ms, more than {threshold}." } }
    assert.equal("123 ms, more than 100.", hints(r, { status = "x", ms = 123.4 })[1].reason)
  end)

  it("see the signals of the capture", function()
    local r = rule { { when = { { signal = "orders.slow" } }, tool = "a", reason = "r" },
      { when = { { signal = "orders.slow", absent = true } }, tool = "b", reason = "r" } }
    assert.same({ "a" }, tools(hints(r, {}, { signals = { { signal = "orders.slow" } } })))
    assert.same({ "b" }, tools(hints(r, {}, { signals = {} })))
  end)

  it("give the first that held on a condition priority high where the file says so", function()
    local list = { { when = { { field = "n", above = 5 } }, tool = "a", reason = "r" }, { when = { { field = "n", above = 1 } }, tool = "b",
      reason = "r" }, { tool = "c", reason = "r", priority = "low" } }
    local got = hints(rule(list, { lead = true }), { n = 2 })
    assert.same({ "high", "low" }, { got[1].priority, got[2].priority })
    assert.equal("normal", hints(rule(list), { n = 2 })[1].priority)
    assert.equal("low", hints(rule(list, { lead = true }), { n = 0 })[1].priority)
  end)

  it("may be functions; one that fails costs its own hint", function()
    local log = require("lunette.log")
    local error_of = log.error
    local told
    log.error = function(_, message) told = message end -- luacheck: ignore
    local got = hints(rule {
      { when = function(a) return a.n > 1 end, tool = "a", reason = function(a) return "n is " .. a.n end,
        arguments = function(a) return { top = a.n } end },
      { when = function(a) return a.none.n end, tool = "b", reason = "r" },
      { tool = "c", reason = "r" },
    }, { n = 3 })
    log.error = error_of -- luacheck: ignore
    assert.same({ "a", "c" }, tools(got))
    assert.same({ "n is 3", 3 }, { got[1].reason, got[1].suggestedArguments.top })
    assert.equal("a hint rule failed", told)
  end)

  it("of several files come by their order", function()
    local first = rule({ { tool = "a", reason = "r" } }, { order = 5 })
    local set = kit.hints { rule { { tool = "late", reason = "r" } }, rule({ { tool = "ours", reason = "r" } }, { order = 100 }), first }
    assert.same({ "a", "ours", "late" }, tools(hinting.of(set, "orders", { artifact = {} })))
    assert.same({}, hinting.of(set, "another", { artifact = {} }))
  end)

  it("that are wrong are left out and told", function()
    local set = kit.hints {
      rule { { when = { { input = "cpuu", above = 1 } }, tool = "a", reason = "r" } }, rule { { tool = "b", reason = "r" } },
    }
    assert.equal(1, #set.problems)
    assert.is_truthy(set.problems[1].message:find("there is no fact", 1, true))
    assert.same({ "b" }, tools(hinting.of(set, "orders", { artifact = {} })))
  end)
end)

describe("what a set asks for", function()
  it("is not changed by its hint rules", function()
    local set = kit.hints { { handle = "counters", hints = { { when = { { counter = "Shop/x", above = 1 }, { handle = "gc-events",
      field = "n", above = 1 } }, tool = "a", reason = "r" } } } }
    assert.same({ providers = {}, meters = {} }, set.asks)
    assert.same({}, set.handles)
  end)
end)

describe("the hints of a capture", function()
  it("are those of its collector, then those of the rules", function()
    local own = { { nextTool = "mine" } }
    local list = index.hints("exception-snapshot", { artifact = { total = 3, resolved = 0 }, handle_id = "H" }, own)
    assert.same({ "mine", "collect_events", "query_snapshot" }, tools(list))
    assert.equal(1, #own)
  end)
end)
