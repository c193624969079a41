-- SPDX-License-Identifier: MIT
-- hints: what is given out is capped, and says what cannot be followed yet.
local hints = require("lunette.hints")

describe("lunette.hints #unit", function()
  setup(function()
    hints.announce("spec_tool", function(arguments) return arguments.kind ~= "later" end)
  end)

  it("gives a hint that can be followed as it is", function()
    local given = hints.settle({ hints.new("spec_tool", "Look.", { kind = "now" }, "high") })
    assert.same({ { nextTool = "spec_tool", reason = "Look.", suggestedArguments = { kind = "now" }, priority = "high" } }, given)
  end)

  it("marks a hint at what is not built, lowers it, and puts it behind the others", function()
    local given = hints.settle({
      hints.new("no_such_tool", "First.", nil, "high"), hints.new("spec_tool", "Second.", { kind = "later" }),
      hints.new("spec_tool", "Third."),
    })
    assert.same({ "Third.", "First. (Not in this version yet.)", "Second. (Not in this version yet.)" },
      { given[1].reason, given[2].reason, given[3].reason })
    assert.same({ "normal", "low", "low" }, { given[1].priority, given[2].priority, given[3].priority })
  end)

  it("gives no more than the cap, and leaves the caller's list alone", function()
    local list = {}
    for i = 1, hints.MAX + 3 do list[i] = hints.new("spec_tool", "n" .. i) end
    assert.equal(hints.MAX, #hints.settle(list))
    assert.equal(hints.MAX + 3, #list)
  end)
end)
