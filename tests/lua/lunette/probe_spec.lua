-- SPDX-License-Identifier: MIT
-- lunette.probe: declarations and their mistakes, and every reducer over recordings with known contents.
local json = require("lunette.json")
local kit = require("support.framework_kit")
local probe = require("lunette.probe")
local sys = require("lunette.sys")

local R <const> = probe.RUNTIME

local function recording(name) return { path = sys.home .. "/tests/data/recordings/" .. name .. ".nettrace" } end

local function over(name, declared)
  local result, err = probe.run(kit.ctx(), probe.program(declared), recording(name))
  return assert(result, tostring(err))
end

local function source(keep, more)
  local declared = {
    name = "spec", keep = keep,
    events = {
      ping = "Lunette-Demo/Ping", start = "Lunette-Demo/OrderStart", stop = "Lunette-Demo/OrderStop", bad = "Lunette-Demo/Bad",
      all = "Lunette-Demo/*",
    },
  }
  for k, v in pairs(more or {}) do declared[k] = v end
  return declared
end

-- The message of a declaration that is refused, without the place of the call.
local function mistake(declared)
  local ok, why = pcall(probe.program, declared)
  assert.is_false(ok)
  return (why:gsub("^.-probe%.program: ", ""))
end

describe("probe.program", function()
  local keep <const> = { n = probe.count() }

  it("names the key that it does not know, and the nearest one", function()
    local s = source(keep)
    s.provider = {}
    assert.matches("the program has no key 'provider'; it has .*Did you mean.*providers", mistake(s))
    assert.matches("n has no key 'were'.*Did you mean.*where", mistake(source { n = probe.count { were = "x" } }))
    assert.matches("g%.q has no key 'n'", mistake(source { g = probe.group { by = "x", keep = { q = { op = "quantiles", n = 1 } } } }))
  end)

  it("says which reducer is wrong and what was expected", function()
    for _, case in ipairs {
      { { n = 12 }, "n is no reducer; make it with probe.count%(%) and the like" },
      { { n = { op = "mean" } }, "n: there is no reducer 'mean'" },
      { { probe.count() }, "reducers have names, not numbers" },
      { {}, "keep says what to keep; it is empty" },
      { { n = probe.last(0, { a = "x" }) }, "n's number of rows is a whole number from 1, not 0" },
      { { n = probe.last(2, {}) }, "n's row is empty" },
      { { n = probe.last(2, { a = print }) }, "n's row%.a is an expression: a text, not a function" },
      { { n = probe.timeline { every = "soon", keep = keep } }, 'n%.every is a length of time like "1s" or "100ms", not soon' },
      { { n = probe.count { on = "pong" } }, "n: there is no event 'pong' in the program.*ping" },
      { { n = probe.each("print", { a = "x" }) }, "n: each%(%) takes a function" },
      { { n = probe.group { by = { n = "x" }, keep = keep } }, "n: 'n' is both a key and a reducer" },
      { { n = probe.pair { start = "start", stop = "stop", by = { start = "id" } } }, "n%.by has one side only" },
    } do
      assert.matches(case[2], mistake(source(case[1])))
    end
  end)

  it("checks providers, events, finish and stacks", function()
    for _, case in ipairs {
      { { providers = { { name = R, keywords = "Exceptions" } } }, "the runtime has no keyword 'Exceptions'.*Exception" },
      { { providers = { { keywords = 1 } } }, "providers%[1%] has no name" },
      { { providers = { { name = R } } }, "providers%[1%]: the runtime's events are chosen by keywords; name them" },
      { { providers = { { name = R, keywords = 1, level = 9 } } }, "providers%[1%]%.level is 0 to 5" },
      { { events = { a = "Ping" } }, 'events%.a: "Ping" is not PROVIDER/EVENT' },
      { { events = {} }, "events names at least one kind of event" },
      { { finish = { where = "x" } }, "finish%.on names the event" },
      { { finish = { on = "pong" } }, "finish: there is no event 'pong'" },
      { { stacks = "names" }, 'stacks is true or "addresses"' },
    } do
      assert.matches(case[2], mistake(source(keep, case[1])))
    end
  end)

  it("knows the runtime's keywords by name", function()
    local program = probe.program(source(keep, { providers = { { name = R, keywords = { "GC", "Exception", "0x10" }, level = 2 } } }))
    assert.same({ { name = R, keywords = 0x8011, level = 2 } }, program.providers)
  end)

  it("leaves expressions to the engine, whose answer names reducer, text and place", function()
    local result, err = probe.run(kit.ctx(), probe.program(source { sum = probe.sum("number +") }), recording("source"))
    assert.is_nil(result)
    assert.equal("InvalidArgument", err.kind)
    assert.matches('sum: in the expression "number %+" at character 9: something is missing at the end', err.message)
  end)
end)

describe("probe.run over a recording", function()
  it("counts, sums and ranks", function()
    local r = over("source", source {
      n = probe.count { on = { "ping", "bad" } }, all = probe.count(), sum = probe.sum("number", { on = "ping" }),
      least = probe.min("value", { on = "bad" }), most = probe.max("value", { on = "bad" }), stats = probe.stats("number", { on = "ping" }),
      last = probe.value("text", { on = "ping" }), kinds = probe.distinct("kind", { on = "start" }),
      q = probe.quantiles("number", { 50, 99.9 }, { on = "ping" }),
    })
    assert.same({ 150, 350, 5050, 1.25, 50.25, "ping 100" }, { r.n, r.all, r.sum, r.least, r.most, r.last })
    assert.same({ n = 100, sum = 5050, min = 1, max = 100, mean = 50.5 }, r.stats)
    assert.same({ n = 4, exact = true, error = 0.0 }, r.kinds)
    assert.same({ 100, 1, 100, 50.5 }, { r.q.n, r.q.min, r.q.max, r.q.mean })
    assert.is_true(math.abs(r.q.p50 - 50) <= 50 * r.q.error, "p50 " .. r.q.p50)
    assert.equal(100, r.q.p99_9)
    assert.same({}, r.meta.missing)
    assert.same({}, r.notes)
  end)

  it("groups, with what did not fit in other", function()
    local r = over("source", source {
      kinds = probe.group { on = "start", by = { kind = "kind" }, top = 3, keep = { n = probe.count(), ids = probe.stats("id") } },
      odd = probe.group { on = "ping", by = "number % 2", weight = "number", keep = { n = probe.count() } },
    })
    assert.equal(4, r.kinds.keys)
    assert.equal(3, #r.kinds.rows)
    for _, row in ipairs(r.kinds.rows) do assert.equal(25, row.n) end
    assert.same({ 1, 25, 25 }, { r.kinds.other.keys, r.kinds.other.n, r.kinds.other.ids.n })
    assert.same({ { key = 0, n = 50 }, { key = 1, n = 50 } }, r.odd.rows)
  end)

  it("pairs, keeps rows and cuts time into slices", function()
    local r = over("source", source {
      orders = probe.pair {
        start = "start", stop = "stop", by = "id", open = { id = "id" },
        keep = {
          kinds = probe.group { by = { kind = "start.kind" }, keep = { n = probe.count(), us = probe.quantiles("@duration / 1e3") } },
          longest = probe.top(2, "@duration", { id = "id", kind = "start.kind" }), wrong = probe.count { where = "start.id != id" },
        },
      },
      first = probe.first(2, { number = "number", text = "text" }, { on = "ping" }),
      last = probe.last(2, { number = "number" }, { on = "ping" }),
      never = probe.pair { start = "start", stop = "ping", by = { start = "id", stop = "text" }, open = { id = "id" }, top = 3 },
      slices = probe.timeline { every = "10s", keep = { pings = probe.count { on = "ping" } } },
    })
    local o = r.orders
    assert.same({ 100, 0, 0, 0, {} }, { o.pairs, o.unmatched, o.open, o.wrong, o.open_rows })
    assert.same({ 100, { { id = 1 }, { id = 2 }, { id = 3 } } }, { r.never.open, r.never.open_rows })
    assert.equal(4, #o.kinds.rows)
    for _, row in ipairs(o.kinds.rows) do assert.same({ 25, 25 }, { row.n, row.us.n }) end
    assert.same({ 2, 100, 98 }, { #o.longest.rows, o.longest.seen, o.longest.dropped })
    assert.same({ rows = { { number = 1, text = "ping 1" }, { number = 2, text = "ping 2" } }, seen = 100, dropped = 98 }, r.first)
    assert.same({ { number = 99 }, { number = 100 } }, r.last.rows)
    assert.equal(100, r.slices.buckets[1].pings)
  end)

  it("hands events to a Lua function, in order", function()
    local numbers, texts = {}, {}
    local r = over("source", source {
      seen = probe.each(function(row)
        numbers[#numbers + 1] = row.number
        texts[row.text] = true
      end, { number = "number", text = "text" }, { on = "ping" }),
    })
    assert.same({ seen = 100, dropped = 0 }, r.seen)
    assert.equal(100, #numbers)
    for i, n in ipairs(numbers) do assert.equal(i, n) end
    assert.is_true(texts["ping 57"])
  end)

  it("names the frames of stacks and merges by them; leading machinery is cut", function()
    local declared = {
      name = "throws", events = { thrown = R .. "/Exception/Start" },
      keep = {
        sites = probe.group {
          by = { stack = "@stack" }, frames = { skip = { "System." }, depth = 1 }, keep = { n = probe.count() },
        },
        whole = probe.group { by = { stack = "@stack" }, keep = { n = probe.count() } },
      },
    }
    local r = over("throw", declared)
    local seen = {}
    for _, row in ipairs(r.sites.rows) do
      local frames = r.stacks[row.stack].frames
      assert.equal(1, #frames)
      assert.equal("lunette-target", frames[1].module)
      seen[frames[1].name:match("[%w.]+")] = row.n
    end
    assert.same({
      ["Lunette.Target.Throwing.ThrowInvalid"] = 10, ["Lunette.Target.Throwing.ThrowArgument"] = 20,
      ["Lunette.Target.Throwing.ThrowOrder"] = 30,
    }, seen)
    assert.equal(3, #r.whole.rows)
    declared.stacks = "addresses"
    local bare = over("throw", declared)
    assert.is_nil(bare.stacks[1].frames[1].name)
    assert.matches("^0x%x+$", bare.stacks[1].frames[1].address)
  end)

  it("lets names for expressions stand for themselves on both sides of a pair", function()
    local r = over("fights", {
      name = "fights", let = { ms = "@duration / 1e6", lock = "hex(LockID)" },
      events = { start = R .. "/Contention/Start", stop = R .. "/Contention/Stop" },
      keep = {
        waits = probe.pair {
          start = "start", stop = "stop",
          keep = { locks = probe.group { by = { lock = "start.lock" }, keep = { n = probe.count(), ms = probe.sum("ms") } } },
        },
      },
    })
    assert.equal(40, r.waits.pairs)
    assert.same({ 20, 20 }, { r.waits.locks.rows[1].n, r.waits.locks.rows[2].n })
    assert.matches("^0x%x+$", r.waits.locks.rows[1].lock)
    local total = r.waits.locks.rows[1].ms + r.waits.locks.rows[2].ms
    assert.is_true(total > 840 and total < 860, "the waiter measured 851.7 ms; " .. total)
  end)

  it("tells a field that is not there once a kind, as a note and in meta", function()
    local r = over("source", source { s = probe.sum("colour", { on = "ping" }) })
    assert.is_nil(r.s)
    assert.same({ { event = "Ping", version = 0, field = "colour", n = 100 } }, r.meta.missing)
    assert.matches("^FieldMissing: Ping has no colour in its version 0 %(100 events%)", r.notes[1])
  end)

  it("ends early where the program says so", function()
    local r = over("source", source({ n = probe.count() }, { finish = { on = "ping", where = "number == 100" } }))
    assert.is_true(r.meta.finished)
  end)

  it("gives the same result twice", function()
    local declared = source { g = probe.group { on = "start", by = "kind", keep = { last = probe.last(3, { id = "id" }) } } }
    assert.same(over("source", declared).g, over("source", declared).g)
  end)

  it("reports a file that is not there, and one that is no recording", function()
    local program = probe.program(source { n = probe.count() })
    local result, err = probe.run(kit.ctx(), program, { path = "/no/such/file" })
    assert.is_nil(result)
    assert.equal("NotFound", err.kind)
  end)
end)

describe("probe.open", function()
  it("shows what the reducers hold, and the end", function()
    local seen = 0
    local program = probe.program(source {
      n = probe.count(), each = probe.each(function() seen = seen + 1 end, { id = "id" }, { on = "start" }),
    })
    local session <close> = assert(probe.open(program, recording("source")))
    local state
    repeat state = assert(session:next(5000)) until state == "ended"
    assert.equal(100, seen)
    assert.is_true(session:stop(1000).complete)
    assert.equal(350, session:peek().n)
  end)
end)

describe("a result that a script answers as it is", function()
  it("has a list where nothing came, too", function()
    local r = over("source", source({
      rows = probe.last(3, { id = "id" }, { where = "false" }),
      kinds = probe.group { by = "kind", keep = { n = probe.count() }, where = "false" },
      orders = probe.pair { start = "start", stop = "stop", by = "id", open = { id = "id" }, where = "false" },
    }))
    local losses = r.window.summary.lost_by_thread
    for _, list in ipairs { r.rows.rows, r.kinds.rows, r.orders.open_rows, r.notes, r.meta.missing, r.stacks, losses } do
      assert.equal("[]", json.encode(list))
    end
  end)
end)
