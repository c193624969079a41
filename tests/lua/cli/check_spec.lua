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
