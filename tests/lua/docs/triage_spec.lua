-- SPDX-License-Identifier: MIT
-- docs/triage.md works as written: its rules, hints and signals load, and its spec passes.
local tutorial = require("support.tutorial")

describe("docs/triage.md", function()
  it("works as written", function()
    local counts = tutorial.run("../triage.md")
    assert.same({ 8, 2, 2 }, { counts.written, counts.run, counts.compared })
  end)
end)
