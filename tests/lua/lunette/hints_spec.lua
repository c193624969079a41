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

  it("sends nobody from a recording to whatever process runs here", function()
    hints.announce("spec_live", function() return true end, function(_, name) return name == "processId" end)
    hints.announce("spec_both", function() return true end, function(arguments, name)
      return name == "processId" or name == "traceFilePath" and arguments.kind ~= "live"
    end)
    local keep = hints.new("spec_live", "For the next one.")
    local given = hints.of_recording({
      hints.new("spec_live", "Gone."), hints.new("spec_live", "Named.", { processId = 7 }), keep,
      hints.new("spec_both", "Both.", { kind = "now", durationSeconds = 10, topN = 5 }, "high"),
      hints.new("spec_both", "Gone.", { kind = "live" }),
      hints.new("spec_both", "Gone: it was just made.", { kind = "same" }), hints.new("spec_both", "Rows.", { handle = "H" }),
      hints.new("spec_both", "Gone: of the kernel.", { kind = "now", cpuBackend = "Os" }), hints.new("elsewhere.tool", "Other."),
    }, "a.nettrace", "same", function(hint) return hint == keep end)
    assert.same({ "Named.", "For the next one.", "Both. (If the recording has it.)", "Rows.", "Other." },
      { given[1].reason, given[2].reason, given[3].reason, given[4].reason, given[5].reason })
    assert.equal(5, #given)
    assert.same({ nextTool = "spec_both", reason = "Both. (If the recording has it.)", priority = "high",
      suggestedArguments = { kind = "now", topN = 5, traceFilePath = "a.nettrace" } }, given[3])
    hints.retract("spec_live")
    hints.retract("spec_both")
  end)

  it("gives no more than the cap, and leaves the caller's list alone", function()
    local list = {}
    for i = 1, hints.MAX + 3 do list[i] = hints.new("spec_tool", "n" .. i) end
    assert.equal(hints.MAX, #hints.settle(list))
    assert.equal(hints.MAX + 3, #list)
  end)
end)
