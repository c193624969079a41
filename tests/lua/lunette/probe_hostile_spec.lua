-- SPDX-License-Identifier: MIT
-- Declarations that nobody would write by intent: each is refused with the place and what was expected, none runs without end or fills
-- the memory.
local events = require("lunette.events")
local probe = require("lunette.probe")
local sys = require("lunette.sys")

local function declared(keep, more)
  local d = { name = "hostile", events = { a = "Lunette-Demo/Ping", b = "Lunette-Demo/Bad" }, keep = keep }
  for k, v in pairs(more or {}) do d[k] = v end
  return d
end

local function mistake(d)
  local ok, why = pcall(probe.program, d)
  assert.is_false(ok)
  local message, n = why:gsub("^.-probe%.program: ", "")
  assert.equal(1, n, "not a message of the checks: " .. why)
  return message
end

local function group(by, more)
  local g = { by = by, keep = { n = probe.count() } }
  for k, v in pairs(more or {}) do g[k] = v end
  return { g = probe.group(g) }
end

describe("probe.program over hostile declarations", function()
  it("ends on tables without an end", function()
    local cyclic = { op = "filter" }
    cyclic.keep = { again = cyclic }
    assert.matches("reducers are nested more than 16 deep", mistake(declared { a = cyclic }))
    local endless = setmetatable({}, { __index = function(_, k) return k end })
    assert.matches("g%.by has more than 4096 entries", mistake(declared(group(endless))))
    local words = setmetatable({}, { __index = function() return "P/E" end })
    assert.matches("events%.a has more than 4096 entries", mistake(declared(group("x"), { events = { a = words } })))
  end)

  it("counts reducers and entries", function()
    local many, patterns = {}, {}
    for i = 1, 513 do many["n" .. i] = probe.count() end
    for i = 1, 4097 do patterns[i] = "P/" .. i end
    assert.matches("the program has more than 512 reducers", mistake(declared(many)))
    assert.matches("events%.a has more than 4096 entries", mistake(declared(many, { events = { a = patterns } })))
  end)

  it("names the place of a value of the wrong type", function()
    local n <const> = { n = probe.count() }
    for _, case in ipairs {
      { declared(group("x", { keep = 5 })), "g%.keep is a table of reducers by name, not a number" },
      { declared(group("x", { keep = print })), "g%.keep is a table of reducers by name, not a function" },
      { declared(group("x", { frames = 5 })), "g%.frames is a table, not a number" },
      { declared(group("x", { frames = { skip = 5 } })), "g%.frames%.skip holds texts, not number" },
      { declared(group { a = "x", [2] = "y" }), "g%.by: its entries have names, not a number" },
      { declared { l = probe.last(3, { a = "x", [true] = "y" }) }, "l's row: its entries have names, not a boolean" },
      { declared(n, { finish = 5 }), "finish is a table, not a number" },
      { declared(n, { providers = 5 }), "providers is a list, not a number" },
      { declared(n, { providers = { 5 } }), "providers%[1%] is a table, not a number" },
      { declared(n, { providers = { { name = "x", args = {} } } }), "providers%[1%]%.args is a text, not a table" },
      { declared(n, { providers = { { name = "x", keywords = 1.5 } } }), "keywords is a whole number, a name, or a list of them" },
      { declared(n, { providers = { { name = "x", keywords = { print } } } }), "keywords is a whole number, a name, or a list of them" },
      { declared(n, { name = print }), "name is a text, not a function" },
      { declared { ["a\0b"] = probe.count() }, "a reducer's name has a NUL character in it" },
      { declared { s = probe.sum("a\0b") }, "s's expression has a NUL character in it" },
      { declared { q = probe.quantiles("x", "p95") }, "q's percentiles is a list, not a string" },
      { declared { q = probe.quantiles("x", { "95" }) }, "q's percentiles holds numbers from 0 to 100, not 95" },
      { declared { q = probe.quantiles("x", { 101 }) }, "q's percentiles holds numbers from 0 to 100, not 101" },
      { declared { l = probe.last(1000001, { a = "x" }) }, "l's number of rows is at most 1000000, not 1000001" },
      { declared(group("x", { top = 1 << 60 })), "g%.top is at most 4294967295" },
      { declared { t = probe.timeline { every = "99999999999999999999s", keep = n } }, 't%.every is a length of time like "1s"' },
    } do
      assert.matches(case[2], mistake(case[1]))
    end
  end)

  it("tells the caller of a constructor that its options are no table", function()
    local ok, why = pcall(probe.count, 5)
    assert.is_false(ok)
    assert.matches("probe%.count: its options are a table, not a number", why)
    assert.equal("count", probe.count({ op = "sum" }).op)
  end)
end)

describe("events.open", function()
  it("takes no list whose length is made up", function()
    local path = sys.home .. "/tests/data/recordings/source.nettrace"
    local function long(n) return setmetatable({ { "a", "A/B" } }, { __len = function() return n end }) end
    for _, n in ipairs { -1, -(1 << 60), 1 << 60 } do
      local ok, why = pcall(events.open, { path = path, want = {}, program = { events = long(n), keep = {} } })
      assert.is_false(ok)
      assert.matches("events is too long", why)
      ok, why = pcall(events.open, { path = path, want = long(n) })
      assert.is_false(ok)
      assert.matches("'want' has more than", why)
    end
  end)
end)
