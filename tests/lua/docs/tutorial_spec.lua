-- SPDX-License-Identifier: MIT
-- The tutorial and the recipes of docs/scripting work as written, block by block.
local tutorial = require("support.tutorial")

describe("docs/scripting", function()
  it("the tutorial: from a recorded trace to a tested rule, a collector and a playbook", function()
    local counts = tutorial.run("tutorial.md")
    assert.is_true(counts.written >= 7 and counts.run >= 8 and counts.compared >= 6)
  end)

  it("the recipes", function()
    local counts = tutorial.run("recipes.md")
    assert.is_true(counts.written >= 7 and counts.run >= 7 and counts.compared >= 5)
  end)
end)
