-- SPDX-License-Identifier: MIT
--- What a box gives its scripts, what it keeps from them, and what its calls come back with.
local json = require("lunette.json")
local loop = require("lunette.loop")
local sandbox = require("lunette.sandbox")

local function new(options)
  options = options or {}
  options.name = options.name or "t.lua"
  return sandbox.new(options)
end

--- Runs source in the box: true and results, or nil and the err.
local function run(box, source, ...)
  local chunk, err = box:load(source, "@t.lua")
  if not chunk then return nil, err end
  return box:call(chunk, ...)
end

local function fails(box, source, kind)
  local ok, err = run(box, source)
  assert.is_nil(ok, "it did not fail")
  assert.equal(kind or "ScriptError", err.kind, tostring(err))
  return err
end

describe("sandbox: calls #unit", function()
  it("gives arguments and all results, nils too", function()
    assert.same(table.pack(true, nil, 2, nil), table.pack(run(new(), "local a, b = ... return a, b * 2, nil", nil, 1)))
    assert.same({ true, n = 1 }, table.pack(run(new(), "")))
  end)

  it("names file, line and what happened", function()
    local err = fails(new(), "\n\nlocal t\nreturn t.x")
    assert.same({ "t.lua", 4, "attempt to index a nil value (local 't')" }, { err.file, err.line, err.message })
    err = fails(new(), "\nlocal x = = 1")
    assert.same({ "t.lua", 2, "unexpected symbol near '='" }, { err.file, err.line, err.message })
    err = fails(new(), "\n\nerror({ kind = 'NotFound', message = 'no such row', hint = 'look again' })", "NotFound")
    assert.same({ "t.lua", 3, "no such row", "look again" }, { err.file, err.line, err.message, err.hint })
    err = fails(new { budget_ms = 20 }, "\nlocal function f()\n  while true do end\nend\nf()", "BudgetExceeded")
    assert.same({ "t.lua", 3 }, { err.file, err.line })
    err = fails(new { memory = 1 << 20 }, "local s = 'x'\nwhile true do\n  s = s .. s\nend", "OutOfMemory")
    assert.same({ "t.lua", 3 }, { err.file, err.line })
    assert.matches("1024 KiB", err.message, 1, true)
  end)

  it("waits inside granted functions, inside pcall and coroutines", function()
    local ok, ms = run(new(), [[
      local loop = require "lunette.loop"
      local t0 = loop.now_ms()
      assert(pcall(loop.sleep_ms, 5))
      coroutine.wrap(function() loop.sleep_ms(5) end)()
      loop.sleep_ms(5)
      return loop.now_ms() - t0]])
    assert.is_true(ok and ms >= 15)
  end)

  it("counts CPU, not waiting", function()
    assert.is_true((run(new { budget_ms = 30 }, "local s = require('lunette.loop').sleep_ms for _ = 1, 20 do s(5) end")))
  end)

  it("counts the calls inside a call for the outer one too, whose end is theirs", function()
    local inner = new { name = "inner.lua", budget_ms = 60000 }
    local spin = assert(inner:load("while true do end", "@inner.lua"))
    local seen
    local outer = new { budget_ms = 60, globals = { call = function() seen = table.pack(inner:call(spin)) return "never" end } }
    local err = fails(outer, "return call()", "BudgetExceeded")
    assert.equal("inner.lua", err.file)
    assert.is_nil(seen, "the inner call must not come back")
    assert.is_nil(inner.disabled)
  end)

  it("ends the inner call alone when only that is over", function()
    local inner = new { name = "inner.lua", budget_ms = 20 }
    local spin = assert(inner:load("while true do end", "@inner.lua"))
    local outer = new { budget_ms = 60000, globals = { call = function() return select(2, inner:call(spin)).kind end } }
    assert.same({ true, "BudgetExceeded" }, { run(outer, "return call()") })
  end)

  it("hands a cancellation on: the task ends, not only the call", function()
    local box = new { budget_ms = 60000 }
    local chunk = assert(box:load("while true do pcall(function() while true do end end) end", "@t.lua"))
    local came_back = false
    local task = loop.spawn(function()
      box:call(chunk)
      came_back = true
    end)
    loop.sleep_ms(1)
    task:cancel("no longer wanted")
    local ok, err = task:await()
    assert.same({ nil, "Cancelled", false }, { ok, err.kind, came_back })
    assert.is_true((run(box, "return 1")), "the box is none the worse")
  end)

  it("keeps a yield from leaving the call", function()
    local box = new()
    local chunk = assert(box:load("coroutine.yield('out')", "@t.lua"))
    local co = coroutine.wrap(function() return box:call(chunk) end)
    local ok, err = co()
    assert.is_nil(ok)
    assert.matches("outside a coroutine", err.message, 1, true)
  end)

  it("leaves its tasks when the call ends, and allows eight", function()
    local before = loop.stats().tasks
    assert.is_true((run(new(), "local l = require('lunette.loop') for _ = 1, 8 do l.spawn(l.sleep_ms, 60000) end")))
    loop.sleep_ms(20)
    assert.equal(before, loop.stats().tasks)
    assert.matches("at most 8 tasks", fails(new(), "local l = require('lunette.loop') for _ = 1, 9 do l.spawn(l.sleep_ms, 1) end").message)
    assert.matches("cannot spawn", fails(new(), [[
      local l = require('lunette.loop')
      local _, err = l.spawn(function() l.spawn(l.now_ms) end):await()
      error(err)]]).message)
    assert.same({ true, 6 }, { run(new(), [[
      local l = require('lunette.loop')
      local a, b = l.spawn(function(x) l.sleep_ms(1) return x end, 2), l.spawn(function(x) return x end, 4)
      return a:await() + b:await()]]) })
  end)

  it("gives data as a copy, with the marks of JSON, and refuses what is no data", function()
    local box = new()
    local function data(source) return box:data(assert(box:load(source, "@t.lua"))) end
    local ok, value = data([[
      local j = require 'lunette.json'
      return { list = j.array {}, null = j.null, n = setmetatable({ 1, 2 }, { __index = function() while true do end end }) }]])
    assert.is_true(ok)
    assert.equal('{"list":[],"n":[1,2],"null":null}', json.encode(value))
    assert.is_nil(getmetatable(value.n))
    for source, says in pairs {
      ["return { f = print }"] = "holds a function", ["local t = {} t.t = t return t"] = "contains itself",
      ["return { [{}] = 1 }"] = "a key of type table", ["return coroutine.create(print)"] = "holds a thread",
    } do
      local done, err = data(source)
      assert.is_nil(done)
      assert.matches(says, err.message, 1, true)
    end
  end)

  it("takes the script's metatables off what a wrapped function gives, and leaves the framework's", function()
    local box = new { globals = { object = function() return setmetatable({}, { __index = { kind = "ours" } }) end } }
    local ok, fn = run(box, [[
      local evil = { __index = function() while true do end end, __len = function() return 1 << 60 end }
      return function(n)
        local t = setmetatable({ deep = { setmetatable({ n }, evil) }, ours = object() }, evil)
        t.self = t
        return t, 'second'
      end]])
    assert.is_true(ok)
    local value, second = box:wrap(fn)(7)
    assert.same({ 7, 1, "ours", "second" }, { value.deep[1][1], #value.deep[1], value.ours.kind, second })
    assert.is_nil(getmetatable(value.deep[1]))
    assert.equal(value, value.self)
    local _, failing = run(box, "return function() error('later') end")
    local got, err = box:wrap(failing)()
    assert.same({ nil, "later" }, { got, err.message })
  end)
end)

describe("sandbox: the watchdog #unit", function()
  it("disables a script whose calls ended at a limit three times in a row", function()
    local box = new { budget_ms = 5 }
    local spin, fine = assert(box:load("while true do end", "@t.lua")), assert(box:load("return 1", "@t.lua"))
    for _ = 1, 2 do assert.is_nil((box:call(spin))) end
    assert.same({ true, 1 }, { box:call(fine) })
    for _ = 1, 3 do
      assert.is_nil(box.disabled)
      assert.is_nil((box:call(spin)))
    end
    assert.matches("3 calls in a row", box.disabled, 1, true)
    local ok, err = box:call(fine)
    assert.is_nil(ok)
    assert.matches("t.lua is disabled: 3 calls", err.message, 1, true)
    assert.is_string(err.hint)
  end)

  it("disables a script one step of which kept all others waiting for long", function()
    local text = ("x"):rep(30000000) -- the framework's: a call could not hold it, and one function of the library walks all of it
    local box = new { held_ms = 10, globals = { text = text } }
    assert.same({ true, 30000000 }, { run(box, "return utf8.len(text)") })
    assert.matches("one step of it kept the server from all other work", box.disabled, 1, true)
    assert.is_nil((run(box, "return 1")))
  end)
end)

describe("sandbox: memory #unit", function()
  it("is counted for the call that asked, not for the others", function()
    local greedy, modest = new { name = "greedy.lua", memory = 4 << 20, budget_ms = 10000 }, new { memory = 4 << 20, budget_ms = 10000 }
    local chunk = assert(greedy:load("local t = {} for i = 1, 1e9 do t[i] = { i } end", "@greedy.lua"))
    local work = assert(modest:load([[
      local sleep, n = require('lunette.loop').sleep_ms, 0
      for _ = 1, 30 do
        local t = {}
        for i = 1, 5000 do t[i] = { i } end
        n = n + #t
        sleep(1)
      end
      return n]], "@t.lua"))
    local task = loop.spawn(function() return modest:call(work) end)
    for _ = 1, 3 do
      local ok, err = greedy:call(chunk)
      assert.same({ nil, "OutOfMemory" }, { ok, err.kind })
    end
    assert.same({ true, 150000 }, { task:await() })
    assert.matches("in a row", greedy.disabled, 1, true)
  end)

  it("is limited for what a script keeps from call to call", function()
    local box = new { memory = 2 << 20, strikes = 100 }
    local ok, keep = run(box, "local kept = {} return function() kept[#kept + 1] = ('x'):rep(1500000) return #kept end")
    assert.is_true(ok)
    local n, err
    for _ = 1, 6 do
      ok, n = box:call(keep)
      if not ok then err = n break end
    end
    assert.equal("OutOfMemory", err and err.kind)
    assert.is_true(box:memory() <= 4 << 20)
    keep, n, err = nil, nil, nil -- luacheck: ignore 311
  end)

  it("goes with the box", function()
    collectgarbage()
    collectgarbage()
    local before = loop.stats().memory_bytes
    do
      local box = new()
      assert.is_true((run(box, "kept = {} for i = 1, 100000 do kept[i] = { i } end")))
      assert.is_true(box:memory() > 5000000)
    end
    collectgarbage()
    collectgarbage()
    assert.is_true(loop.stats().memory_bytes - before < 1000000)
  end)
end)
