-- SPDX-License-Identifier: MIT
--- What docs/sandbox.md shows is so: each of its blocks of Lua is run as a task.
local tutorial = require("support.tutorial")

describe("docs/sandbox.md", function()
  local examples = tutorial.tasks("sandbox.md")

  it("has examples", function() assert.is_true(#examples >= 2) end)

  for _, example in ipairs(examples) do
    it(example.name, function()
      local kind, err = example.run()
      assert.equal(example.fails, kind, err and tostring(err))
    end)
  end
end)
