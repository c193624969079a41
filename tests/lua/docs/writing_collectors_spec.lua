-- SPDX-License-Identifier: MIT
-- The example of docs/writing-collectors.md does what the page says, over a recording with 25 orders of each of four kinds.
local fs = require("lunette.fs")
local json = require("lunette.json")
local kit = require("support.framework_kit")
local sys = require("lunette.sys")

describe("docs/writing-collectors.md", function()
  local text = assert(fs.read(sys.home .. "/docs/writing-collectors.md", 1000000))
  local code = assert(text:match("\n```lua\n(.-)\n```"))

  it("has a collector of about thirty lines", function()
    local _, lines = code:gsub("\n", "")
    assert.is_true(lines <= 36, lines .. " lines")
  end)

  it("makes a tool of the same declaration", function()
    local second = assert(text:match("## As a tool.-\n```lua\n(.-)\n```"))
    local declaration = code:sub(1, assert(code:find("\nlocal pid", 1, true)))
    local made = assert(load(declaration .. second, "@orders_tool.lua"))()
    assert.equal("orders", made.name)
    local result = assert(made:handle(kit.ctx(), { seconds = 0 }))
    local refused = json.decode(result.content[1].text).error
    assert.same({ "InvalidArgument", "seconds" }, { refused.kind, refused.detail })
  end)

  it("runs over a recording", function()
    local printed = {}
    local env = setmetatable({ print = function(line) printed[#printed + 1] = line end }, { __index = _G })
    assert(load(code, "@orders.lua", "t", env))(sys.home .. "/tests/data/recordings/source.nettrace")
    assert.equal(5, #printed)
    local kinds = {}
    for i = 1, 4 do
      assert.matches("^%a+ +25 orders, p50 %d+%.%d+ ms, p99 %d+%.%d+ ms$", printed[i])
      kinds[printed[i]:match("^%a+")] = true
    end
    assert.same({ book = true, food = true, toy = true, tool = true }, kinds)
    local rest = assert(json.decode(printed[5]))
    assert.same({ 0, 3 }, { rest.open, #rest.longest })
  end)
end)
