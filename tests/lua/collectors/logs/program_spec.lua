-- SPDX-License-Identifier: MIT
-- What is asked of the target: levels and the beginnings of categories; the rest is picked by the engine.
local program = require("collectors.logs.program")

local function asked(more)
  local given = { level = "Information", kept = 10, bytes = 4096, detail = false, recorded = false }
  for name, value in pairs(more or {}) do given[name] = value end
  return program.new(given).providers
end

describe("collectors.logs.program", function()
  it("filters by level and by what stands before the first wildcard", function()
    assert.equal("*:Information", program.filter(nil, "Information"))
    assert.equal("Acme.Orders:Debug;Acme.*:Debug", program.filter({ "Acme.Orders", "Acme.*" }, "Debug"))
    assert.equal("Acme.*:Error", program.filter({ "Acme.*.Http", "Acme.?oo" }, "Error"))
    assert.equal("*:Error", program.filter({ "*.Http" }, "Error"))
    assert.equal("*:Error", program.filter({ "a;b", "c:d" }, "Error"))
  end)

  it("asks for messages with the names of their arguments, and for the ids of scopes above Summary", function()
    local plain, detail = asked(), asked { detail = true }
    assert.same({ 1, 0x8, 5 }, { #plain, plain[1].keywords & 0xff, plain[1].level })
    assert.same({ 0x8, "System.Threading.Tasks.TplEventSource", 0x80 }, { detail[1].keywords & 0xff, detail[2].name, detail[2].keywords })
    assert.equal('FilterSpecs="*:Information"', plain[1].args)
  end)

  it("knows levels by name", function()
    local numbers = {}
    for i, name in ipairs(program.LEVELS) do numbers[i] = program.level_of(name) end
    assert.same({ 0, 1, 2, 3, 4, 5 }, numbers)
  end)

  it("keeps more of a text than is shown, within what an event can have", function()
    assert.same({ 4096, 10240, 65536 }, { program.text_max(16), program.text_max(4096), program.text_max(32768) })
    local made = program.new { level = "Error", kept = 1, bytes = 4096, detail = true, recorded = true }
    assert.equal(10240, made.text_max)
    local probe = require("lunette.probe")
    for _, wrong in ipairs { 15, 65537, "x" } do
      local declared = { name = "p", providers = {}, events = { a = "p/e" }, keep = { n = probe.count() }, text_max = wrong }
      local ok, why = pcall(probe.program, declared)
      assert.is_false(ok)
      assert.matches("text_max", tostring(why))
    end
  end)
end)
