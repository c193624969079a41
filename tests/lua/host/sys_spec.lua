-- SPDX-License-Identifier: MIT
--- lunette.sys and lunette.log.
local fs = require("lunette.fs")
local json = require("lunette.json")
local loop = require("lunette.loop")
local sys = require("lunette.sys")

local LUNETTE <const> = fs.realpath("/proc/self/exe")

--- Runs a script in a lunette of its own.
local function run(script, args)
  local path = os.tmpname()
  local f <close> = assert(io.open(path, "w"))
  f:write(script)
  f:flush()
  local argv = { LUNETTE, "lua", path, table.unpack(args or {}) }
  local result = assert(loop.exec({ argv = argv, timeout_ms = 20000 }))
  os.remove(path)
  return result, path
end

describe("sys", function()
  it("knows the process and its environment", function()
    assert.equal(tostring(sys.pid), fs.realpath("/proc/self"):match("%d+$"))
    assert.matches("^%d+%.%d+%.%d+$", sys.version)
    assert.equal(os.getenv("PATH"), sys.getenv("PATH"))
    assert.is_nil(sys.getenv("LUNETTE_NO_SUCH_VARIABLE"))
    assert.equal(os.getenv("PATH"), sys.environ().PATH)
    assert.equal("directory", fs.stat(sys.home .. "/lua").kind)
    assert.is_false(sys.isatty(99))
  end)

  it("cuts and repairs UTF-8", function()
    assert.equal("a", sys.utf8_cut("aé", 2))
    assert.equal("aé", sys.utf8_cut("aé", 3))
    assert.equal("", sys.utf8_cut("é", 0))
    assert.equal("a\u{FFFD}b", sys.utf8_sanitize("a\xffb"))
    assert.equal("é", sys.utf8_sanitize("é"))
  end)

  it("gives a script its arguments, and takes its exit code", function()
    local r = run("local sys = require('lunette.sys') sys.write(#sys.args .. arg[1] .. select(2, ...)) return 7", { "one", "two" })
    assert.same({ 7, "2onetwo" }, { r.code, r.stdout })
  end)
end)

describe("lunette lua", function()
  it("ends with 1 and the place of an error", function()
    local r, path = run("\n\nerror('oh no')")
    assert.equal(1, r.code)
    assert.matches(path .. ":3: oh no", r.stderr, 1, true)
  end)

  it("ends with 1 for a script that does not compile or exist", function()
    local r, path = run("x = = 1")
    assert.equal(1, r.code)
    assert.matches(path .. ":1:", r.stderr, 1, true)
    assert.equal(1, loop.exec({ argv = { LUNETTE, "lua", "/no/such/file.lua" } }).code)
    assert.equal(2, loop.exec({ argv = { LUNETTE, "lua" } }).code)
  end)

  it("cleans up on os.exit and on a signal that ends it", function()
    local r = run("require('lunette.loop').on_cleanup(function() io.stdout:write('clean') end) os.exit(4) io.stdout:write('never')")
    assert.same({ 4, "clean" }, { r.code, r.stdout })
    -- a command that was told to end did not do what it was asked for
    for name, code in pairs { TERM = 143, INT = 130, HUP = 129 } do
      r = run(([[
        local loop, sys = require("lunette.loop"), require("lunette.sys")
        loop.on_cleanup(function() loop.sleep_ms(5) sys.write("clean") end)
        loop.spawn(loop.exec, { argv = { "kill", "-%s", tostring(sys.pid) } })
        loop.sleep_ms(60000)
      ]]):format(name))
      assert.same({ code, "clean" }, { r.code, r.stdout }, name)
    end
  end)
end)

describe("sys.load", function()
  local name = "@lua/lunette/text.lua"
  local text = assert(fs.read(sys.home .. "/lua/lunette/text.lua", 1000000))

  it("loads a script of ours under its short name", function()
    local fn = assert(sys.load(text, name))
    assert.equal(name, debug.getinfo(fn, "S").source)
    assert.is_function(fn().did_you_mean)
  end)

  it("goes by the text: a changed script is what it says", function()
    assert.equal(7, assert(sys.load("do return 7 end " .. text, name))())
    assert.equal(8, assert(sys.load("return 8", "@lua/no/such.lua"))())
  end)

  it("says what is wrong with a text, and takes no compiled code", function()
    local fn, why = sys.load("return (", name)
    assert.is_nil(fn)
    assert.matches("^lua/lunette/text.lua:1: ", why)
    fn, why = sys.load(string.dump(function() return 1 end), name)
    assert.is_nil(fn)
    assert.matches("binary chunk", why)
  end)
end)

describe("log", function()
  it("writes one JSON object a line to stderr, with fields, from its level on", function()
    local r = run([[
      local log = require("lunette.log")
      log.debug("spec", "unseen")
      log.notice("spec", "plain")
      log.warning("spec", "with \"fields\"", { pid = 12, names = { "a", "b" } })
      log.level("error")
      log.warning("spec", "unseen")
      log.error("spec", "last", {})
    ]])
    assert.equal("", r.stdout)
    local lines = {}
    for line in r.stderr:gmatch("[^\n]+") do lines[#lines + 1] = assert(json.decode(line)) end
    assert.equal(3, #lines)
    assert.same({ "notice", "spec", "plain" }, { lines[1].level, lines[1].area, lines[1].msg })
    assert.same({ "warning", 'with "fields"', 12, { "a", "b" } }, { lines[2].level, lines[2].msg, lines[2].pid, lines[2].names })
    assert.same({ "error", "last" }, { lines[3].level, lines[3].msg })
  end)
end)
