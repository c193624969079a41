-- SPDX-License-Identifier: MIT
local lazy = require("lunette.lazy")

describe("lazy #unit", function()
  local loads, module

  before_each(function() loads, module = 0, { answer = 42 } end)

  local function modules(name)
    loads = loads + 1
    if name == "broken" then error("no such module: " .. name, 0) end
    return module
  end

  it("loads a module when something of it is first used, and once", function()
    local m = lazy.upon(modules)("one")
    assert.equal(0, loads)
    assert.equal(42, m.answer)
    assert.is_nil(m.nothing)
    m.more = 1
    assert.equal(1, loads)
    assert.equal(1, module.more)
  end)

  it("stands for a module that is a function, and for one that is walked", function()
    module = function(a, b) return a + b end
    assert.equal(5, lazy.upon(modules)("one")(2, 3))
    module = { a = 1, b = 2 }
    local seen = {}
    for k, v in pairs(lazy.upon(modules)("two")) do seen[k] = v end
    assert.same({ a = 1, b = 2 }, seen)
  end)

  it("tells what is wrong with the module at each use", function()
    local m = lazy.upon(modules)("broken")
    for _ = 1, 2 do
      local ok, err = pcall(function() return m.answer end)
      assert.is_false(ok)
      assert.equal("no such module: broken", err)
    end
  end)

  it("gives what is loaded as it is", function() assert.equal(require("lunette.text"), lazy("lunette.text")) end)

  it("works in a sandbox, upon its require", function()
    local box = require("lunette.sandbox").new { name = "lazy" }
    local fn = assert(box:load([[
      local text = require("lunette.lazy")("lunette.text")
      local none = require("lunette.lazy")("lunette.fs")
      return text.quote("x"), pcall(function() return none.read end)
    ]], "@lazy.lua"))
    local ran, quoted, ok, err = box:call(fn)
    assert.is_true(ran)
    assert.equal(require("lunette.text").quote("x"), quoted)
    assert.is_false(ok)
    assert.truthy(tostring(err):find("there is no module", 1, true))
  end)
end)
