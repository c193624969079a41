-- SPDX-License-Identifier: MIT
-- lunette check: what it finds, and where it says it is.
local events = require("lunette.check.events")
local json = require("lunette.json")
local kit = require("support.site_kit")
local loop = require("lunette.loop")

local function check(...)
  return assert(loop.exec { argv = { "/proc/self/exe", "check", ... }, timeout_ms = 60000 })
end

local function problems(dir)
  local done = check(dir, "--json")
  local list = {}
  for i, p in ipairs(json.decode(done.stdout)) do list[i] = ("%s:%d: %s"):format(p.file:sub(#dir + 2), p.line, p.message) end
  return list, done.code
end

describe("lunette check #unit", function()
  it("finds nothing wrong with what comes with the program", function()
    local done = check(kit.folder())
    assert.equal("0 files in 1 folder: all is sound\n", done.stdout)
    assert.equal(0, done.code)
  end)

  it("names file and line of each mistake, and exits with 1", function()
    local dir = kit.folder()
    kit.write(dir, "rule/a.lua", "")
    kit.write(dir, "orders.lua", "")
    kit.write(dir, "tools/a.lua", 'local j = require "lunette.json"\nlocal x = require "os"\n'
      .. 'return tool { name = "a", description = "d",\n  run = function() return j.encod({}) end }')
    kit.write(dir, "collectors/waits.lua", [[
local probe = require "lunette.probe"
local RUNTIME = probe.RUNTIME
return collector {
  kind = "waits",
  program = {
    providers = { { name = RUNTIME, keywords = "Contention" }, { name = "System.Net.Htpp" } },
    events = { start = RUNTIME .. "/Contention/Strat", ex = RUNTIME .. "/Exception/Start" },
    let = { n2 = "1" },
    keep = {
      n = probe.count { on = "ex", where = "ExceptionTyp == 'x' and n2 == 1" },
      types = probe.group {
        on = "ex", by = "ExceptionType",
        keep = { bad = probe.sum("len(ExceptionMessage) +") },
      },
    },
  },
}
]])
    local list, code = problems(dir)
    assert.equal(1, code)
    assert.same({
      'collectors/waits.lua:6: there is no known provider "System.Net.Htpp". Did you mean "System.Net.Http"?',
      'collectors/waits.lua:7: Microsoft-Windows-DotNETRuntime has no event "Contention/Strat". Did you mean "Contention/Start"?',
      'collectors/waits.lua:10: no event here has the field "ExceptionTyp". Did you mean "ExceptionType"?',
    }, { table.unpack(list, 1, 3) })
    assert.matches("^collectors/waits.lua:13: in the expression", list[4])
    assert.matches("^orders.lua:1: a script here is not looked at", list[5])
    assert.equal('rule:1: there is no room "rule". Did you mean "rules"?', list[6])
    assert.equal('tools/a.lua:2: require: there is no module "os" for sandboxed scripts.', list[7]:sub(1, 71))
    assert.equal('tools/a.lua:4: lunette.json has no encod for site scripts. Did you mean "encode"?', list[8])
    assert.equal(8, #list)
  end)

  it("reads helpers and specs, too, which nothing may have run", function()
    local dir = kit.folder()
    kit.write(dir, "lib/good.lua", "\xEF\xBB\xBFreturn { 1 }")
    kit.write(dir, "lib/half.lua", "return {\n  1,\n")
    kit.write(dir, "specs/half_spec.lua", 'describe("x", function( it("y") end)\n')
    kit.write(dir, "lib/notes.txt", "none of them")
    local list, code = problems(dir)
    assert.equal(1, code)
    assert.same({ "lib/half.lua:3: unexpected symbol near <eof>", "specs/half_spec.lua:1: ')' expected near '('" }, list)
  end)

  it("tells of the gaps of a summary that nothing fills", function()
    local dir = kit.folder()
    kit.write(dir, "collectors/orders.lua", [[
local probe = require "lunette.probe"
return collector {
  kind = "orders",
  program = function()
    return {
      providers = { { name = "Shop" } }, events = { start = "Shop/Start", stop = "Shop/Stop" },
      keep = {
        orders = probe.pair {
          start = "start", stop = "stop", by = "id", open = { at = "@time" },
          keep = { slow = probe.count { where = "@duration > 5" }, time = probe.quantiles("@duration", { 50, 99.9 }) },
        },
        kinds = probe.group { by = { kind = "kind" }, keep = { n = probe.count() } },
        each_second = probe.timeline { every = "1s", keep = { n = probe.count() } },
        last = probe.last(3, { id = "id" }), all = probe.filter { keep = { n = probe.count() } },
        told = probe.distinct("id"), sums = probe.stats("id"),
      },
    }
  end,
  summary = "{orders.pairs} {orders.open} {orders.slow} {orders.time.p50} {orders.time.error} {orders.open_rows.1.at} "
    .. "{kinds.keys} {kinds.rows.1.kind} {kinds.rows.1.n} {kinds.other.n} {each_second.buckets.1.at_ns} {last.rows.2.id} "
    .. "{all.n} {told.exact} {sums.mean} {duration_s} {duration_ms} {process_id} {origin} {cost.events} {stacks}",
}
]])
    local list, code = problems(dir)
    assert.same({}, list)
    assert.equal(0, code)
    kit.write(dir, "collectors/orders.lua", [[
local probe = require "lunette.probe"
return collector {
  kind = "orders",
  program = {
    providers = { { name = "Shop" } }, events = { start = "Shop/Start", stop = "Shop/Stop" },
    keep = {
      orders = probe.pair { start = "start", stop = "stop", by = "id", keep = { time = probe.quantiles("@duration", { 50 }) } },
      kinds = probe.group { by = { kind = "kind" }, keep = { n = probe.count() } },
    },
  },
  summary = "{order.pairs} {orders.pair} {orders.time.p95} {orders.pairs.n} {kinds.rows.kind} {kinds.rows.1.m} "
    .. "{orders.open_rows.1.at} {kinds} {duration}",
}
]])
    list, code = problems(dir)
    assert.equal(1, code)
    for i, message in ipairs(list) do list[i] = message:gsub("^collectors/orders.lua:11: ", "") end
    table.sort(list)
    assert.same({
      '{duration} is never filled: the program keeps no "duration". Did you mean "duration_s"?',
      '{kinds.rows.1.m} is never filled: kinds.rows.1 has no field "m". Did you mean "n"?',
      '{kinds.rows.kind} is never filled: kinds.rows has no field "kind".',
      "{kinds} is a table, no value that a sentence can hold",
      '{order.pairs} is never filled: the program keeps no "order". Did you mean "orders"?',
      '{orders.open_rows.1.at} is never filled: orders has no field "open_rows". Did you mean "open"?',
      "{orders.pairs.n}: orders.pairs is a value, it has no fields",
      '{orders.pair} is never filled: orders has no field "pair". Did you mean "pairs"?',
      '{orders.time.p95} is never filled: orders.time has no field "p95".',
    }, list)
  end)

  it("knows the names of tools, kinds of handles, views, options, and what can never be", function()
    local dir = kit.folder()
    kit.write(dir, "rules/never.lua", [[
return rule {
  name = "a.never", input = { counter = "System.Runtime/cpu-usag" }, levels = { elevated = 10 }, summary = "s", rationale = "r",
  when = { { input = "cpu", above = 50 }, { input = "gc_time", above = 1 }, { input = "cpu", below = 50 } },
  hypotheses = {
    {
      name = "h.h", summary = "s", confidence = "low", signals = { "a.nevr" },
      next = { tool = "collect_event", reason = "x" },
    },
    {
      name = "h.i", summary = "s", confidence = "low",
      next = { tool = "collect_events", reason = "x", arguments = {
        kind = "gcc",
        duration = 5,
      } },
    },
  },
}]])
    kit.write(dir, "rules/share.lua", [[
return rule {
  name = "a.share", input = { counter = "System.Runtime/cpu-usage", stat = "mean" }, summary = "s", rationale = "r",
  levels = { elevated = 50,
    high = 120 },
}]])
    kit.write(dir, "rules/both.lua", [[
return rule {
  name = "a.both", input = "queue", levels = { elevated = 100 }, summary = "s", rationale = "r",
  when = { { input = "queue", below = 100 } },
}]])
    kit.write(dir, "rules/fine.lua", [[
return rule {
  name = "a.fine", input = "queue", levels = { elevated = 100 }, summary = "s", rationale = "r",
  when = { { input = "queue", below = 200 }, { input = "cpu", at_least = 50 }, { input = "cpu", at_most = 50 } },
  next = { tool = "inspect_heap", reason = "a tool that our hints name is one" },
}]])
    kit.write(dir, "hints/a.lua", 'return hint_rule {\n  handle = "countres",\n  hints = { { tool = "query_snapshto", reason = "y" } },\n}')
    kit.write(dir, "hints/b.lua", 'return hint_rule { handle = "counters", hints = {\n  { tool = "query_snapshot", reason = "y",\n'
      .. '    arguments = { view = "sumary" } } } }')
    kit.write(dir, "signals/a.lua", 'return signal { id = "a.b",\n  handle = "conters", of = function() return nil end }')
    kit.write(dir, "signals/b.lua", 'return signal { id = "a.c", handle = "counters", of = function() return nil end,\n'
      .. '  next = { view = "sumary", reason = "r" } }')
    kit.write(dir, "views/counters/v.lua", 'return view { kind = "counters", name = "v", project = function() return {} end,\n'
      .. '  options = { "topM:5" } }')
    kit.write(dir, "collectors/c.lua", 'local probe = require("lunette.probe")\nreturn collector { kind = "c", program = {\n'
      .. 'providers = { { name = probe.RUNTIME, keywords = 1 } },\nevents = { a = probe.RUNTIME .. "/GCStart" },\n'
      .. 'keep = { n = probe.count() } } }')
    kit.write(dir, "collectors/d.lua", 'local probe = require("lunette.probe")\nreturn collector { kind = "d", program = {\n'
      .. 'providers = { { name = probe.RUNTIME, keywords = 1 } },\nevents = { a = probe.RUNTIME .. "/GCStrt" },\n'
      .. 'keep = { n = probe.count() } } }')
    kit.write(dir, "tools/d.lua", 'local probe = require("lunette.probe")\nlocal n = probe.cuont()\nreturn tool {}')
    kit.write(dir, "tools/e.lua", "return toool { }")
    assert.same({
      'collectors/c.lua:4: "GCStart" is the first version of the event, which no runtime of today sends. Did you mean "GC/Start"?',
      'collectors/d.lua:4: Microsoft-Windows-DotNETRuntime has no event "GCStrt". Did you mean "GC/Start"?',
      'hints/a.lua:2: there is no kind of handle "countres". Did you mean "counters"?',
      'hints/a.lua:3: there is no tool "query_snapshto". Did you mean "query_snapshot"?',
      'hints/b.lua:3: counters has no view "sumary". Did you mean "summary"?',
      "rules/both.lua:3: can never hold together with the conditions before it: no number is both",
      'rules/never.lua:2: System.Runtime is not known to have a counter "cpu-usag". Did you mean "cpu-usage"?',
      "rules/never.lua:3: can never hold together with the conditions before it: no number is both",
      'rules/never.lua:6: the hypothesis h.h looks for a signal "a.nevr" that no rule gives. Did you mean "a.never"?',
      'rules/never.lua:7: there is no tool "collect_event". Did you mean "collect_events"?',
      'rules/never.lua:12: collect_events has no kind "gcc". Did you mean "gc"?',
      'rules/never.lua:13: collect_events has no parameter "duration". Did you mean "durationSeconds"?',
      "rules/share.lua:4: can never be reached: System.Runtime/cpu-usage is a share of 100",
      'signals/a.lua:2: there is no kind of handle "conters". Did you mean "counters"?',
      'signals/b.lua:2: counters has no view "sumary". Did you mean "summary"?',
      "tools/d.lua:2: attempt to call a nil value (field 'cuont'): lunette.probe has no cuont for site scripts. Did you mean \"count\"?",
      "tools/e.lua:1: attempt to call a nil value (global 'toool'). Did you mean \"tool\"?",
      'views/counters/v.lua:2: query_snapshot has no parameter "topM:5". Did you mean "topN"?',
    }, (problems(dir)))
  end)

  it("names the line of a mistake within a program, and what a script was probably looking for", function()
    local dir = kit.folder()
    local function program(kind, keep)
      kit.write(dir, "collectors/" .. kind .. ".lua", ([[
local probe = require("lunette.probe")
return collector {
  kind = %q, program = {
    providers = { { name = probe.RUNTIME, keywords = 1 } },
    events = { a = probe.RUNTIME .. "/GC/Start" },
%s
  },
}]]):format(kind, keep))
    end
    program("ca", '    keep = { n = probe.count { onn = "a" } },')
    program("cb", "    keeep = { n = probe.count() },")
    program("cc", '    keep = {\n      n = probe.count { on = "b" } },')
    program("cd", '    keep = { n = probe.pair {\n      start = "a",\n      stop = "z", by = "@thread" } },')
    kit.write(dir, "rules/mine.lua", "local base = ...\nreturn extend(base, { levels = { elevated = 5 } })")
    kit.write(dir, "rules/io.lua", '\nlocal f = io.open("x")\nreturn f')
    kit.write(dir, "rules/os.lua", 'local f = os.getenv("x")\nreturn f')
    kit.write(dir, "rules/lib.lua", 'local f = require("site.hlper")\nreturn f')
    kit.write(dir, "lib/helper.lua", "return {}")
    local list = problems(dir)
    for i, line in ipairs(list) do list[i] = line:gsub(dir:gsub("%p", "%%%0") .. "/", "") end
    assert.same({
      "collectors/ca.lua:6: n has no key 'onn'; it has op, on, where. Did you mean \"on\"?",
      "collectors/cb.lua:6: the program has no key 'keeep'; it has name, providers, events, let, keep, finish, stacks, memory_max, "
        .. 'text_max. Did you mean "keep"?',
      "collectors/cc.lua:7: n: there is no event 'b' in the program. Did you mean \"a\"?",
      "collectors/cd.lua:8: n: there is no event 'z' in the program. Did you mean \"a\"?",
      "rules/io.lua:2: attempt to index a nil value (global 'io'): site scripts have no io (docs/sandbox.md says what there is)",
      'rules/lib.lua:1: require: there is no module "site.hlper" for sandboxed scripts: lib/hlper.lua is not there. Did you mean "helper"?',
      "rules/mine.lua:2: extend: the first argument is the declaration beneath (local base = ...); there is none at this path, since no "
        .. "layer beneath has such a file",
      "rules/os.lua:1: attempt to call a nil value (field 'getenv'): of os, site scripts have clock, date, difftime and time",
    }, list)
  end)

  it("says so when a folder is not there", function()
    local list, code = problems("/nonexistent/site")
    assert.equal(1, code)
    assert.matches("there is no such folder", list[1], 1, true)
  end)

  it("reads the names of fields from expressions", function()
    local names = {}
    for i, used in ipairs(events.names_in([[start.Size + `odd name` > 10ms and starts(lower(Name.Part), "no.field") or @time == 0x1f]])) do
      names[i] = (used.side and used.side .. "." or "") .. used.name
    end
    assert.same({ "start.Size", "odd name", "Name" }, names)
  end)
end)
