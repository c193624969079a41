-- SPDX-License-Identifier: MIT
--- What docs/sandbox.md shows is so: each of its blocks of Lua is run as a task.
local fs = require("lunette.fs")
local loop = require("lunette.loop")
local sys = require("lunette.sys")

--- The blocks that begin with ```lua, or ```lua fails KIND.
local function blocks(text)
  local list = {}
  for info, code in text:gmatch("\n```lua([^\n]*)\n(.-)\n```") do
    list[#list + 1] = { code = code, fails = info:match("^ fails (%w+)$") }
  end
  return list
end

describe("docs/sandbox.md", function()
  local list = blocks(assert(fs.read(sys.home .. "/docs/sandbox.md", 1000000)))

  it("has examples", function() assert.is_true(#list >= 2) end)

  for i, block in ipairs(list) do
    local first_line = block.code:match("\n([^\n]+)") or block.code
    it(("is right in block %d: %s"):format(i, first_line), function()
      local run = assert(load(block.code, "@block"))
      local _, err = loop.spawn(run):await(20000)
      assert.equal(block.fails, err and err.kind, err and tostring(err))
    end)
  end
end)
