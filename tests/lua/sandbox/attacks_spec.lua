-- SPDX-License-Identifier: MIT
--- Scripts that misbehave cost their own call and nothing else: while each of these runs, another task goes on, and afterwards all works
--- and nothing is left. Time is CPU of this process, so that a busy machine does not matter.
local loop = require("lunette.loop")
local sandbox = require("lunette.sandbox")

local BUDGET_MS <const> = 120
local LATENCY_MS <const> = 100 -- what another task may have to wait at most
-- What a call may leave for a while: the table of all short strings, and the stack of the coroutine that it ran in, have grown.
local LEFT_BYTES <const> = 2 << 20

--- Runs source in a box while a ticker looks how long it is kept waiting.
local function attack(source, more)
  local options = { name = "bad.lua", budget_ms = BUDGET_MS }
  for k, v in pairs(more or {}) do options[k] = v end
  local box = sandbox.new(options)
  local worst, over = 0, false
  local ticker = loop.spawn(function()
    while not over do
      local t0 = loop.cpu_ms()
      loop.sleep_ms(1)
      worst = math.max(worst, loop.cpu_ms() - t0)
    end
  end)
  local result
  loop.spawn(function()
    local chunk, err = box:load(source, "@bad.lua")
    result = chunk and table.pack(box:call(chunk)) or { nil, err }
  end):await()
  over = true
  ticker:await()
  return result, worst, box
end

local BUDGET <const>, MEMORY <const>, SCRIPT <const> = "BudgetExceeded", "OutOfMemory", "ScriptError"
local EITHER <const> = "either" -- BUDGET or MEMORY, as fast as the machine is

local ATTACKS <const> = {
  -- loops
  { "an endless loop", BUDGET, "while true do end" },
  { "a loop of goto", BUDGET, "::again:: goto again" },
  { "an endless repeat", BUDGET, "repeat local x = 1 until false" },
  { "a loop inside pcall, again and again", BUDGET, "while true do pcall(function() while true do end end) end" },
  { "a handler of xpcall that loops too", BUDGET,
    "while true do xpcall(function() while true do end end, function() while true do end end) end" },
  { "a handler of xpcall that loops for an error of the script", BUDGET,
    "while true do xpcall(error, function() while true do end end, 'x') end" },
  { "a loop in a coroutine", BUDGET, "coroutine.wrap(function() while true do end end)()" },
  { "a loop in coroutines that are resumed and swallowed", BUDGET,
    "while true do coroutine.resume(coroutine.create(function() while true do end end)) end" },
  { "coroutines without end", BUDGET, "while true do local co = coroutine.wrap(function() coroutine.yield(1) end) co() end" },
  { "a metamethod that loops", BUDGET, "return setmetatable({}, { __index = function() while true do end end }).x" },
  { "an iterator that never ends", BUDGET, "for _ in function() return 1 end do end" },
  -- C functions of the library that a count hook does not see
  { "a pattern that backtracks", BUDGET, "return ('a'):rep(40):find(('a?'):rep(40) .. ('a'):rep(40))" },
  { "a pattern of many repetitions", BUDGET, "return ('a'):rep(5000):find('.-.-.-.-.-.-b')" },
  { "a balanced match from everywhere", BUDGET, "return ('('):rep(1000000):find('%b()')" },
  { "gmatch that finds nothing for long", BUDGET, "for _ in ('a'):rep(100000):gmatch('a*a*a*b') do end" },
  { "gsub over a long text", BUDGET, "return (('a'):rep(200000):gsub('a*a*$b', ''))" },
  { "a long set in a pattern", BUDGET, "return ('x'):rep(1000000):find('[' .. ('a'):rep(1000000) .. ']')" },
  { "a pattern that recurses", SCRIPT, "return ('x'):rep(10):find(('(x?)'):rep(30) .. ('x-'):rep(300) .. 'y')", "too complex" },
  { "a callback of gsub that loops", BUDGET, "return (('x'):gsub('x', function() while true do end end))" },
  { "a table of gsub that loops", BUDGET,
    "return (('x'):gsub('x', setmetatable({}, { __index = function() while true do end end })))" },
  { "plain find of nearly the same", true, "return ('a'):rep(4000000):find(('a'):rep(2000000) .. 'b', 1, true)" },
  { "nothing, repeated for ever", true, "return (''):rep(1 << 62) == '' and #(''):rep(1 << 40, '')" },
  { "a comparator that loops", BUDGET, "table.sort({ 3, 1, 2 }, function() while true do end end)" },
  { "a comparator without an order, on much", BUDGET,
    "local t = {} for i = 1, 300000 do t[i] = i end while true do pcall(table.sort, t, function() return true end) table.sort(t) end" },
  { "sorting strings with a long common part", BUDGET,
    "local s, t = ('x'):rep(1000000), {} for i = 1, 20 do t[i] = s .. i end "
    .. "while true do table.sort(t, function(a, b) return a > b end) end" },
  { "table.move of what is not there", BUDGET,
    "table.move(setmetatable({}, { __index = rawlen, __newindex = rawlen }), 1, 1 << 60, 2)" },
  { "table.insert into a length that is a lie", BUDGET,
    "table.insert(setmetatable({}, { __len = function() return 1 << 60 end, __index = rawlen, __newindex = rawlen }), 1, 'x')" },
  { "table.remove from a length that is a lie", BUDGET,
    "table.remove(setmetatable({}, { __len = function() return 1 << 60 end, __index = rawlen, __newindex = rawlen }), 1)" },
  { "table.concat of a length that is a lie", BUDGET,
    "return table.concat(setmetatable({}, { __len = function() return 1 << 60 end, __index = type }))" },
  { "table.concat of a metamethod that loops", BUDGET,
    "return table.concat(setmetatable({}, { __len = function() return 3 end, __index = function() while true do end end }))" },
  { "table.unpack of a length that is a lie", SCRIPT,
    "return table.unpack(setmetatable({}, { __len = function() return 1 << 60 end, __index = type }))", "too many results" },
  { "a format of many long arguments", BUDGET,
    "local s, t = ('x'):rep(8000000), {} for i = 1, 100 do t[i] = s end "
    .. "while true do string.format(('%.1s'):rep(100), table.unpack(t)) end" },
  { "a format of many long numbers", BUDGET,
    "local t = {} for i = 1, 20000 do t[i] = 1e308 end while true do string.format(('%.99f'):rep(20000), table.unpack(t)) end" },
  { "a format with a huge width", SCRIPT, "return ('%99999d'):format(1)", "invalid" },
  { "a long format of pack", SCRIPT, "return string.packsize(('!'):rep(8000000))", "too long" },
  { "a long format of os.date", SCRIPT, "return os.date(('%c'):rep(1000000))", "too long" },
  { "a source that is hard to compile", BUDGET, [[
    local t = {}
    for i = 1, 30000 do t[i] = "::a" .. i .. "::" end
    while true do load(table.concat(t)) end]] },
  { "a source that is nested deeply", SCRIPT, "assert(load('return ' .. ('('):rep(100000) .. '1' .. (')'):rep(100000)))", "overflow" },
  -- memory
  { "tables without end", MEMORY, "local t = {} while true do t[#t + 1] = {} end" },
  { "strings without end", MEMORY, "local t = {} while true do t[#t + 1] = ('x'):rep(10000) .. #t end" },
  { "a string that doubles", MEMORY, "local s = 'x' while true do s = s .. s end" },
  { "a huge string.rep", MEMORY, "return ('x'):rep(1 << 40)" },
  { "a huge string.rep, kept by nobody", MEMORY, "while true do pcall(string.rep, 'x', 1 << 40) end" },
  { "a huge concatenation, again and again", EITHER,
    "local s = ('x'):rep(20000000) while true do pcall(function() return s .. s end) end", nil, { budget_ms = 1000 } },
  { "a concatenation that doubles", MEMORY, "local s = 'x' while true do s = s .. s end" },
  { "a huge table.concat", EITHER, "local t, s = {}, ('x'):rep(1000000) for i = 1, 1000 do t[i] = s end return table.concat(t)" },
  { "a huge gsub", EITHER, "return (('x'):rep(1000000):gsub('x', ('y'):rep(1000)))" },
  { "a huge table at once", EITHER,
    "local t = table.pack(string.byte(('x'):rep(900000), 1, -1)) for i = 1, 10000000 do t[i] = i end" },
  { "a huge string as a key", MEMORY, "local t = {} for i = 1, 100 do t[('x'):rep(1000000) .. i] = true end" },
  { "coroutines that are kept", MEMORY, "local t = {} while true do t[#t + 1] = coroutine.wrap(function() end) end" },
  { "closures that are kept", MEMORY, "local t = {} while true do local n = #t t[n + 1] = function() return n end end" },
  { "JSON of a table that is many times in itself", SCRIPT,
    "local t = { 1 } for _ = 1, 40 do t = { t, t } end return require('lunette.json').encode(t)", "takes too long" },
  { "JSON that is long", EITHER, "return require('lunette.json').decode('[' .. ('0,'):rep(4000000) .. '0]')" },
  { "garbage without end", BUDGET, "while true do local t = { {}, {}, {} } end" },
  -- recursion
  { "recursion", MEMORY, "local function f() return 1 + f() end return (pcall(f))" },
  { "recursion with more and more arguments", SCRIPT, "local function f(...) return 1 + f(1, ...) end f()", "stack overflow" },
  { "recursion of pcall", true, "local function f() return pcall(f) end f() return true" },
  { "recursion in metamethods", SCRIPT,
    "local t = setmetatable({}, {}) getmetatable(t).__index = function(s, k) return s[k .. 'x'] end return t.x", "overflow" },
  { "recursion through coroutines", SCRIPT, "local function f() return coroutine.wrap(f)() end f()" },
  { "recursion through gsub", SCRIPT, "local function f() return (('x'):gsub('x', f)) end f()", "overflow" },
  { "recursion through __close", BUDGET,
    "local function f() local x <close> = setmetatable({}, { __close = f }) error('again') end f()" },
  -- ends that do not end
  { "__close that loops", BUDGET,
    "local x <close> = setmetatable({}, { __close = function() while true do end end }) while true do end" },
  { "many __close that loop", BUDGET, [[
    local mt = { __close = function() while true do end end }
    local function f(n) local x <close> = setmetatable({}, mt) if n > 0 then f(n - 1) end while true do end end
    f(150)]] },
  { "__close that loops in a coroutine", BUDGET, [[
    local co = coroutine.create(function()
      local x <close> = setmetatable({}, { __close = function() while true do end end })
      coroutine.yield()
    end)
    coroutine.resume(co)
    coroutine.close(co)]] },
  { "__gc", SCRIPT, "setmetatable({}, { __gc = function() while true do end end })", "__gc is not available" },
  { "weak keys", SCRIPT, "setmetatable({}, { __mode = 'k' })", "weak keys" },
  { "an error object whose __tostring loops", SCRIPT,
    "error(setmetatable({}, { __tostring = function() while true do end end }))", "cannot be shown" },
  { "an error object whose __tostring throws", SCRIPT,
    "error(setmetatable({}, { __tostring = function() error('again') end }))", "cannot be shown" },
  { "an error object whose __tostring waits", SCRIPT,
    "error(setmetatable({}, { __tostring = function() require('lunette.loop').sleep_ms(1) end }))", "cannot be shown" },
  { "an error object whose __tostring yields", SCRIPT,
    "error(setmetatable({}, { __tostring = function() coroutine.yield() end }))", "cannot be shown" },
  { "an error object whose __tostring gives no text", SCRIPT, "error(setmetatable({}, { __tostring = function() return {} end }))",
    "cannot be shown" },
  { "an error object whose __index loops", SCRIPT,
    "error(setmetatable({}, { __index = function() while true do end end }))", "table: " },
  { "error(nil)", SCRIPT, "error(nil)", "nil" },
  { "an error of a table", SCRIPT, "error({})", "table: " },
  { "an error that pretends to be the host's", SCRIPT, "error({ kind = 'BudgetExceeded', message = 'not true' })", "not true" },
  { "a cancellation that is none", SCRIPT, "error({ kind = 'Cancelled', message = 'not true' })", "not true" },
  -- yields at the wrong moment
  { "a yield from nowhere", SCRIPT, "coroutine.yield(1)", "outside a coroutine" },
  { "a yield in a comparator", SCRIPT, "coroutine.wrap(function() table.sort({ 2, 1 }, coroutine.yield) end)()", "yield across" },
  { "a yield in a callback of gsub", SCRIPT, "coroutine.wrap(function() return (('x'):gsub('x', coroutine.yield)) end)()", "yield across" },
  { "a wait in a comparator", SCRIPT,
    "table.sort({ 2, 1 }, function(a, b) require('lunette.loop').sleep_ms(1) return a < b end)", "cannot wait here" },
  { "a yield in a metamethod and in __close, which is fine", true, [[
    local co = coroutine.wrap(function()
      local x <close> = setmetatable({}, { __close = function() coroutine.yield('close') end })
      return setmetatable({}, { __add = function() return coroutine.yield('add') end }) + 1
    end)
    assert(co() == 'add' and co(7) == 'close' and co() == 7)]] },
  -- ways out
  { "bytecode", SCRIPT, "assert(load('\\27Lua'))", "binary" },
  { "string.dump", SCRIPT, "string.dump(function() end)", "nil value" },
  { "the end of the process", SCRIPT, "os.exit(1)", "nil value" },
  { "a host's module", SCRIPT, "require('lunette.fs')", "there is no module" },
  { "the libraries", SCRIPT, "for _, n in ipairs({ 'io', 'debug', 'package' }) do assert(_G[n] == nil) end io.open('x')", "nil value" },
  { "the task's own coroutine", SCRIPT, "local co = coroutine.running() coroutine.close(co)", "cannot close" },
}

describe("a script in the sandbox #unit", function()
  for _, case in ipairs(ATTACKS) do
    local name, kind, source, says, more = table.unpack(case, 1, 5)
    it("costs its own call: " .. name, function()
      local tasks, result, worst, box = loop.stats().tasks, nil, nil, nil
      -- Whatever comes first ends a call: some are to come to the end of their memory.
      local options = more or (kind == MEMORY or kind == EITHER) and { budget_ms = 5000 } or nil
      -- A processor that others share is slower at times: what is true of the script is true at the best of three times.
      for _ = 1, 3 do
        result, worst, box = attack(source, options)
        if worst <= LATENCY_MS then break end
      end
      local err = result[2]
      if kind == true then
        assert.is_true(result[1], tostring(err))
      else
        assert.is_nil(result[1])
        if kind == EITHER and err.kind == BUDGET then kind = BUDGET end
        assert.equal(kind == EITHER and MEMORY or kind, err.kind, tostring(err))
        if says then assert.matches(says, err.message, 1, true) end
      end
      assert.is_true(worst <= LATENCY_MS, ("another task waited for %d ms of CPU"):format(worst))
      assert.equal(tasks, loop.stats().tasks)
      -- The state works, for this box too, and what the call held is gone.
      assert.same({ true, "aXc 7" }, { box:call(assert(box:load("return ('abc'):gsub('b', 'X') .. ' ' .. 3 + 4", "@good.lua"))) })
      for _ = 1, 10 do -- the table of all short strings shrinks by half each time
        collectgarbage()
        if box:memory() < LEFT_BYTES then break end
      end
      assert.is_true(box:memory() < LEFT_BYTES, ("%d bytes are left"):format(box:memory()))
    end)
  end
end)
