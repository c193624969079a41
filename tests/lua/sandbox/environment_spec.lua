-- SPDX-License-Identifier: MIT
--- What a script of the sandbox sees, and that it can change nothing but its own.
local grants = require("lunette.sandbox.grants")
local json = require("lunette.json")
local sandbox = require("lunette.sandbox")

local function new(options)
  options = options or {}
  options.name = "t.lua"
  return sandbox.new(options)
end

local function run(box, source, ...)
  local chunk, err = box:load(source, "@t.lua")
  if not chunk then return nil, err end
  return box:call(chunk, ...)
end

local function value(source, options, ...)
  local ok, v = run(new(options), source, ...)
  assert.is_true(ok, tostring(v))
  return v
end

local function message(source, options)
  local ok, err = run(new(options), source)
  assert.is_nil(ok, "it did not fail: " .. source)
  return err.message
end

describe("sandbox: the environment #unit", function()
  it("is this, no more and no less", function()
    local names = {}
    for name in pairs(new().env) do names[#names + 1] = name end
    table.sort(names)
    assert.same("_G _VERSION assert collectgarbage coroutine error getmetatable ipairs load math next os pairs pcall print rawequal rawget "
      .. "rawlen rawset require select setmetatable string table tonumber tostring type utf8 xpcall", table.concat(names, " "))
    assert.same({ "clock", "date", "difftime", "time" }, value([[
      local t = {} for k in pairs(os) do t[#t + 1] = k end table.sort(t) return t]]))
    assert.is_nil(value("return string.dump"))
    assert.is_nil(value("return math.randomseed"))
  end)

  it("is a box's own: what one script changes, no other sees", function()
    local a, b = new(), new()
    assert.is_true((run(a, "string.rep = 'mine' table.insert = nil math.pi = 3 next = nil leaked = 1 coroutine.wrap = nil")))
    assert.same({ true, "function" }, { run(b, "return type(string.rep)") })
    assert.same({ true, nil }, { run(b, "return leaked") })
    assert.equal("xx", ("x"):rep(2))
    assert.same({ true, "xx" }, { run(a, "return ('x'):rep(2)") }, "methods of strings are everybody's")
    assert.is_function(table.insert)
    assert.is_function(next)
  end)

  it("keeps what is behind strings, tables and objects of the framework from being reached", function()
    assert.equal("protected", value("return getmetatable('')"))
    assert.equal("protected", value("return getmetatable(...)", nil, json.array {}))
    assert.equal("protected", value("return getmetatable(require 'lunette.json')"))
    assert.matches("protected metatable", message("setmetatable(require 'lunette.json', {})"), 1, true)
    assert.matches("read-only", message("rawset(require 'lunette.json', 'encode', 1)"), 1, true)
    assert.matches("read-only", message("require('lunette.json').encode = 1"), 1, true)
    assert.matches("read-only", message("require('lunette.probe').KEYWORDS.GC = 1"), 1, true)
    assert.matches("read-only", message("table.insert(require('lunette.errors').KINDS, 1)"), 1, true)
    assert.is_function(json.encode)
  end)

  it("lets scripts have metatables of their own", function()
    assert.equal("7 nil kept", value([[
      local Class = {}
      Class.__index = Class
      function Class.__add(a, b) return a.n + b end
      local object = setmetatable({ n = 3 }, Class)
      assert(getmetatable(object) == Class and rawset(object, "m", 1).m == 1)
      local locked = setmetatable({}, { __metatable = "kept" })
      assert(not pcall(setmetatable, locked, {}))
      return object + 4 .. " " .. tostring(getmetatable(setmetatable(object, nil))) .. " " .. getmetatable(locked)]]))
  end)

  it("runs what load compiles in the script's environment, or in one that it gives", function()
    assert.equal(42, value("answer = 42 return load('return answer')()"))
    assert.equal(7, value("return load('return x', 'c', 't', { x = 7 })()"))
    assert.equal(3, value("local parts = { 'return ', '1 + 2' } return load(function() return table.remove(parts, 1) end)()"))
    assert.is_nil(value("return load('return io')()"))
    local _, fn, why = run(new(), "return load('x =', 'x =')")
    assert.same({ nil, '[string "x ="]:1: unexpected symbol near <eof>' }, { fn, why })
  end)

  it("prints to the log", function() assert.is_nil(value("return print('a line', 1, nil)")) end)
  it("tells of the call's own memory only", function()
    assert.is_true(value("local t = {} for i = 1, 10000 do t[i] = i end return collectgarbage('count')") > 128)
    assert.matches('only "count"', message("collectgarbage('stop')"), 1, true)
  end)

  it("takes words of the framework, tables read-only, all the way down", function()
    local words = { limits = { list = { 1, 2, 3 }, deep = { name = "x" } } }
    assert.equal("3 6 x 2", value([[
      local sum = 0
      for _, n in ipairs(limits.list) do sum = sum + n end
      local n = 0
      for _ in pairs(limits) do n = n + 1 end
      return #limits.list .. " " .. sum .. " " .. limits.deep.name .. " " .. n]], { globals = words }))
    for _, source in ipairs { "limits.x = 1", "limits.deep.name = 'y'", "limits.list[1] = 9", "rawset(limits.deep, 'name', 'y')",
      "for _, t in pairs(limits) do t.z = 1 end", "table.remove(limits.list)",
      "table.sort(limits.list, function(a, b) return a > b end)" } do
      assert.matches("read-only", message(source, { globals = words }), 1, true)
    end
    assert.same({ limits = { list = { 1, 2, 3 }, deep = { name = "x" } } }, words)
  end)
end)

describe("sandbox: require #unit", function()
  local SITE <const> = {
    ["site.ok"] = "local name = ... return { name = name, n = 1 }", ["site.bad"] = "\nreturn nil + 1", ["site.syntax"] = "return (",
    ["site.one"] = "return require 'site.two'", ["site.two"] = "return require 'site.one'",
    ["site.waits"] = "require('lunette.loop').sleep_ms(1) return 5",
  }
  local function loaders(name) return SITE[name], SITE[name] and "@" .. name .. ".lua" or nil end

  it("gives the granted modules, and names others as missing", function()
    assert.equal('{"a":1}', value("return require('lunette.json').encode { a = 1 }"))
    assert.matches('no module "lunette.jsom" for sandboxed scripts. Did you mean "lunette.json"?', message("require 'lunette.jsom'"),
      1, true)
    for _, name in ipairs { "lunette.fs", "lunette.http", "lunette.config", "io", "lunette.sandbox.native", "cjson" } do
      assert.matches("there is no module", message(("require %q"):format(name)), 1, true)
    end
    assert.matches("there is no module", message("require 'lunette.json'", { grants = { "lunette.text" } }), 1, true)
    assert.is_nil(value("return require('lunette.loop').exec"))
    assert.is_nil(value("return require('lunette.sys').getenv"))
  end)

  it("runs a module of the site once, in the same box", function()
    local box = new { loaders = loaders }
    assert.same({ true, true },
      { run(box, "local a = require 'site.ok' a.n = 2 return a == require 'site.ok' and a.name == 'site.ok'") })
    assert.same({ true, 2 }, { run(box, "return require('site.ok').n") })
    assert.same({ true, 5 }, { run(box, "return require 'site.waits'") })
  end)

  it("names the module's own file and line when it is broken", function()
    local _, err = run(new { loaders = loaders }, "require 'site.bad'")
    assert.same({ "site.bad.lua", 2 }, { err.file, err.line })
    _, err = run(new { loaders = loaders }, "require 'site.syntax'")
    assert.same({ "site.syntax.lua", 1 }, { err.file, err.line })
    assert.matches("requires itself", message("require 'site.one'", { loaders = loaders }), 1, true)
  end)
end)

describe("sandbox: grants #unit", function()
  it("let no text out as it is: json.raw gives what it says as a value, and takes JSON only", function()
    local box = new()
    local _, got = run(box, "return require('lunette.json').raw('{\"b\":[],\\n\"a\":9007199254740993}')")
    assert.equal('{"a":9007199254740993,"b":[]}', json.encode(got))
    for _, text in ipairs({ "}]}garbage", "{}\n{}", "", "[1] 2" }) do
      local _, err = run(box, ("return require('lunette.json').raw(%q)"):format(text))
      assert.matches("json.raw: the text is no JSON", err.message, 1, true)
    end
    -- nor can the value be made into something else
    _, got = run(box, "local r = require('lunette.json').raw('[1]') r[1] = '}}' return r")
    assert.equal('["}}"]', json.encode(got))
  end)

  it("name functions that are there", function()
    for name, members in pairs(grants.MODULES) do
      local module = require(name)
      for member in pairs(members) do assert.is_not_nil(module[member], name .. "." .. member) end
    end
  end)

  it("let a privileged function be called only under a declared scope", function()
    local source = "return function() local t = require('lunette.proc').clock() return t end"
    local box = new()
    local ok, fn = run(box, source)
    assert.is_true(ok)
    local done, err = box:call(fn)
    assert.is_nil(done)
    assert.matches("lunette.proc.clock asks for the scope read-counters, which this script does not declare, or not yet",
      err.message, 1, true)
    assert.same({ "t.lua", 1 }, { err.file, err.line })
    box.scopes = { "eventpipe" }
    assert.matches("does not declare$", select(2, box:call(fn)).message)
    box.scopes = { "eventpipe", "read-counters" }
    assert.is_true((box:call(fn)))
    assert.matches("read-only", message("require('lunette.proc').clock = 1"), 1, true)
  end)

  it("tell from a source which scopes it needs, and where", function()
    local scopes, uses = grants.required([[
-- local no = require("lunette.events") in a comment
local proc <const> = require("lunette.proc")
local json = require "lunette.json"
local text = "require('lunette.ipc').discover"
local own = require("site.helpers")
return function(pid)
  local t = { proc = 1, json = json.null }
  return t.proc, proc.status(pid), require("lunette.probe").run, json.encode(t)
end]])
    assert.same({ "eventpipe", "read-counters" }, scopes)
    local seen = {}
    for i, use in ipairs(uses) do seen[i] = ("%d %s.%s %s"):format(use.line, use.module, use.name, table.concat(use.scopes, ",")) end
    assert.same({ "7 lunette.json.null ", "8 lunette.proc.status read-counters", "8 lunette.probe.run eventpipe",
      "8 lunette.json.encode " }, seen)
  end)

  it("count a module that is handed on whole with all it has, and name what is not granted", function()
    local scopes, uses = grants.required(
      "local p = require('lunette.probe')\nlocal f = {}\nf[1] = p\nrequire 'lunette.fs'\nlocal x = p.nothing")
    assert.same({ "eventpipe" }, scopes)
    assert.same({ { "lunette.probe", nil, 3 }, { "lunette.fs", nil, 4, true }, { "lunette.probe", "nothing", 5, true } },
      { { uses[1].module, uses[1].name, uses[1].line, uses[1].unknown }, { uses[2].module, uses[2].name, uses[2].line, uses[2].unknown },
        { uses[3].module, uses[3].name, uses[3].line, uses[3].unknown } })
    assert.same({ {}, {} }, { grants.required("return 1") })
    scopes, uses = grants.required("local lazy = require('lunette.lazy')\nlocal p = lazy('lunette.proc')\nreturn p.stat")
    assert.same({ "read-counters" }, scopes)
    assert.same({ "lunette.proc", "stat", 3 }, { uses[1].module, uses[1].name, uses[1].line })
  end)
end)
