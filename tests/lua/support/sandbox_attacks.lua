-- SPDX-License-Identifier: MIT
--- Scripts that misbehave, one way each, and a run of one of them that tells how long it kept another task waiting. The specs of the
--- sandbox assert on it, tests/bench/sandbox/gaps.lua prints it.
local loop = require("lunette.loop")
local sandbox = require("lunette.sandbox")

local M = {}

M.BUDGET_MS = 120

local BUDGET <const>, MEMORY <const>, SCRIPT <const> = "BudgetExceeded", "OutOfMemory", "ScriptError"
local EITHER <const> = "either" -- BUDGET or MEMORY, as fast as the machine is
M.BUDGET, M.MEMORY, M.SCRIPT, M.EITHER = BUDGET, MEMORY, SCRIPT, EITHER

--- name, kind of the error that the call ends with (true: none), source, a text of the message, options of the box.
M.ATTACKS = {
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
  { "a table that is its own __call", BUDGET, "local t = {} setmetatable(t, { __call = t }) t()" },
  { "a long chain of __call, again and again", BUDGET,
    "local f = print for _ = 1, 20000 do f = setmetatable({}, { __call = f }) end while true do pcall(f) end" },
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
    "local t = {} for i = 1, 200000 do t[i] = i end while true do pcall(table.sort, t, function() return true end) table.sort(t) end" },
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
    "local s, t = ('x'):rep(4000000), {} for i = 1, 100 do t[i] = s end "
    .. "while true do string.format(('%.1s'):rep(100), table.unpack(t)) end" },
  { "a format of many long numbers", BUDGET,
    "local t = {} for i = 1, 20000 do t[i] = 1e308 end while true do string.format(('%.99f'):rep(20000), table.unpack(t)) end" },
  { "a format with a huge width", SCRIPT, "return ('%99999d'):format(1)", "invalid" },
  { "a long format of pack", SCRIPT, "return string.packsize(('!'):rep(4000000))", "too long" },
  { "a huge padding of pack", MEMORY, "return string.pack('c2147483640', 'x')", "in one piece" },
  { "many paddings of pack", MEMORY, "return string.pack(('c9000'):rep(9000), table.unpack({}, 1, 9000))", "in one piece" },
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
    "local s = ('x'):rep(3000000) while true do pcall(function() return s .. s end) end", nil, { budget_ms = 1000 } },
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
  { "JSON that is long", EITHER, "return require('lunette.json').decode('[' .. ('0,'):rep(1900000) .. '0]')" },
  { "garbage without end", EITHER, "while true do local t = { {}, {}, {} } end" },
  -- recursion
  { "recursion", SCRIPT, "local function f() return 1 + f() end return f()", "stack overflow" },
  { "recursion inside pcall", true, "local function f() return 1 + f() end return not pcall(f)" },
  { "recursion with more and more arguments", MEMORY, "local function f(...) return 1 + f(1, ...) end f()", "in one piece" },
  { "recursion of pcall", true, "local function f() return pcall(f) end f() return true" },
  { "recursion in metamethods", SCRIPT,
    "local t = setmetatable({}, {}) getmetatable(t).__index = function(s, k) return s[k .. 'x'] end return t.x", "overflow" },
  { "recursion through coroutines", SCRIPT, "local function f() return coroutine.wrap(f)() end f()" },
  { "recursion through gsub", SCRIPT, "local function f() return (('x'):gsub('x', f)) end f()", "overflow" },
  { "recursion through __close", EITHER,
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
  { "__close that loops after the end of a coroutine's budget", BUDGET, [[
    while true do
      coroutine.resume(coroutine.create(function()
        local x <close> = setmetatable({}, { __close = function() while true do end end })
        while true do end
      end))
    end]] },
  { "__close that loops in a coroutine whose comparator looped", BUDGET, [[
    coroutine.wrap(function()
      local x <close> = setmetatable({}, { __close = function() while true do pcall(function() while true do end end) end end })
      table.sort({ 2, 1 }, function() while true do end end)
    end)()]] },
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
  -- collections: much that is alive, or dies, at once
  { "a huge table of numbers", MEMORY, "local t = {} for i = 1, 1e9 do t[i] = i end" },
  { "a huge table of tables", MEMORY, "local t = {} for i = 1, 1e9 do t[i] = { i } end" },
  { "a huge table of names", MEMORY, "local t = {} for i = 1, 1e9 do t[i .. 'k'] = i end" },
  { "a huge table filled from its end", MEMORY, "local t = {} for i = 1 << 22, 1, -1 do t[i] = i end" },
  { "short strings without end", MEMORY, "local t, n = {}, 0 while true do n = n + 1 t[n] = n .. '' end" },
  { "short strings that nobody keeps", EITHER, "local n = 0 while true do n = n + 1 local s = n .. 'x' end" },
  { "long strings that nobody keeps", EITHER, "local s, n = ('x'):rep(3000000), 0 while true do n = n + 1 local g = s .. n end" },
  { "long strings that pcall throws away", EITHER,
    "local s = ('x'):rep(3000000) while true do pcall(function() local a, b, c = s .. 1, s .. 2, s .. 3 error(a) end) end" },
  { "a list without end", MEMORY, "local l while true do l = { l } end" },
  { "tables with weak values", MEMORY,
    "local keep, w, mt = {}, {}, { __mode = 'v' } while true do local t = { {} } keep[#keep + 1] = t "
      .. "w[#w + 1] = setmetatable({ t, t[1] }, mt) end" },
  { "a huge table with weak values", MEMORY,
    "local keep, w = {}, setmetatable({}, { __mode = 'v' }) while true do local t = {} keep[#keep + 1] = t w[#w + 1] = t end" },
  { "a huge table that is weak altogether", MEMORY,
    "local keep, w = {}, setmetatable({}, { __mode = 'kv' }) while true do local t = {} keep[#keep + 1] = t w[t] = t end" },
  { "text that grows in many pieces", EITHER, "local t = {} while true do t[#t + 1] = ('x'):rep(200000) end" },
  { "text in many pieces that are not large", MEMORY, "local t = {} while true do t[#t + 1] = ('x'):rep(7000) end" },
  { "lists of a thousand that nobody keeps, again and again", EITHER, "while true do local t = {} for i = 1, 1500 do t[i] = {} end end" },
  { "deep coroutines without end", MEMORY, [[
    local keep = {}
    local function down(n) if n == 0 then coroutine.yield() end return 1 + down(n - 1) end
    while true do local co = coroutine.wrap(down) co(5000) keep[#keep + 1] = co end]] },
  -- deep calls
  { "recursion that is tried again and again", EITHER, "local function f() return 1 + f() end while true do pcall(f) end" },
  { "recursion through <close>", EITHER, [[
    local mt = { __close = function() end }
    local function f() local x <close> = setmetatable({}, mt) return 1 + f() end
    while true do pcall(f) end]] },
  { "recursion with open upvalues", EITHER, [[
    local keep = {}
    local function f(n) local x = n keep[n] = function() x = x + 1 end return 1 + f(n + 1) end
    while true do pcall(f, 1) end]] },
  { "deep calls that allocate then", EITHER, [[
    local function f(n) if n == 0 then local t = {} for i = 1, 1e9 do t[i] = { i } end end return 1 + f(n - 1) end
    return f(15000)]] },
  { "deep calls that make garbage then", EITHER, [[
    local function f(n) if n == 0 then while true do local t = { {} } end end return 1 + f(n - 1) end
    return f(15000)]] },
  { "deep calls that loop then", EITHER, [[
    local function f(n) if n == 0 then while true do end end return 1 + f(n - 1) end
    return f(15000)]] },
  { "very deep calls of few names", EITHER, [[
    local function f(n) if n == 0 then while true do local t = { {} } end end return 1 + f(n - 1) end
    while true do pcall(f, 150000) end]] },
  -- granted functions on the largest text that a call may have
  { "JSON of long text, again and again", EITHER,
    "local json, s = require('lunette.json'), ('\\1'):rep(600000) while true do pcall(json.encode, { s }) end" },
  { "a digest of long text, again and again", BUDGET,
    "local c, s = require('lunette.crypto'), ('x'):rep(4000000) while true do c.sha256(s) end" },
  { "base64 of long text, again and again", EITHER,
    "local c, s = require('lunette.crypto'), ('x'):rep(2000000) while true do pcall(function() c.unbase64(c.base64(s)) end) end" },
  { "a regex of many states on long text", BUDGET,
    "return require('lunette.regex').compile(('a{0,30}'):rep(20) .. 'b'):find(('a'):rep(1000000))" },
  { "a regex that replaces in long text", EITHER,
    "return require('lunette.regex').compile('(a|aa)?'):gsub(('a'):rep(1000000), ('b'):rep(1000))" },
  { "a regex on long text, again and again", BUDGET,
    "local r, s = require('lunette.regex').compile('(a|aa)+b'), ('a'):rep(1000000) while true do r:find(s) end" },
  { "redaction of long text, again and again", EITHER,
    "local r, s = require('lunette.redaction'), ('password=x '):rep(350000) while true do r.redact(s) end" },
  { "UTF-8 of long text, again and again", EITHER,
    "local y, s = require('lunette.sys'), ('\\255'):rep(1300000) while true do y.utf8_sanitize(s) end" },
  { "a log line of long text, again and again", EITHER,
    "local l, s = require('lunette.log'), ('x'):rep(4000000) while true do l.debug('site', s) end" },
  { "capitals of long text, again and again", EITHER, "local s = ('x'):rep(4000000) while true do local u = s:upper() end" },
  { "backwards text, again and again", EITHER, "local s = ('x'):rep(4000000) while true do local u = s:reverse() end" },
  { "comparing long texts, again and again", BUDGET,
    "local a, b = ('x'):rep(4000000) .. 1, ('x'):rep(4000000) .. 2 while true do local u = a < b, a == b end" },
  { "counting letters of long text, again and again", BUDGET, "local s = ('x'):rep(4000000) while true do utf8.len(s) end" },
  { "a long text of letters that are looked up, again and again", EITHER,
    "local s = ('x'):rep(900000) while true do pcall(function() return string.char(s:byte(1, -1)) end) end" },
  { "a long text as a source, again and again", EITHER,
    "local s = ('x'):rep(3900000) while true do local f = load('return \"' .. s .. '\"') end" },
  { "a long text as a number, again and again", BUDGET, "local s = (' '):rep(4000000) while true do tonumber(s) end" },
  { "a long text quoted, again and again", EITHER,
    "local s = ('\\n'):rep(4000000) while true do pcall(string.format, '%q', s) end" },
}

--- CPU of the call: whatever comes first ends it, and some are to come to the end of their memory.
local BUDGETS <const> = { [MEMORY] = 10000, [EITHER] = 1000 }

--- Options of the box in which an attack runs.
local function options_of(kind, more)
  local options = { name = "bad.lua", budget_ms = BUDGETS[kind] or M.BUDGET_MS }
  for k, v in pairs(more or {}) do options[k] = v end
  return options
end

--- Runs an attack in a box while a ticker looks how long it is kept waiting, in CPU of this process: what others do on the machine does
--- not count. -> the packed results of the call, the longest wait in milliseconds, the box
---@param case table   of ATTACKS
function M.run(case)
  local box = sandbox.new(options_of(case[2], case[5]))
  local worst, over = 0, false
  local ticker = loop.spawn(function()
    local last = os.clock()
    while not over do
      loop.sleep_ms(1)
      local now = os.clock()
      worst = math.max(worst, now - last)
      last = now
    end
  end)
  local result
  loop.spawn(function()
    loop.set_budget(-1)
    local chunk, err = box:load(case[3], "@bad.lua")
    result = chunk and table.pack(box:call(chunk)) or { nil, err }
  end):await()
  over = true
  ticker:await()
  return result, worst * 1000, box
end

return M
