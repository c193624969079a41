-- SPDX-License-Identifier: MIT
-- What is called next after a window of database commands.
local rules = require("lunette.rules.index")

local function hints(artifact, pid)
  local list = rules.hints("db-snapshot", { artifact = artifact, handle_id = "H", process_id = pid })
  local out = {}
  for i, h in ipairs(list) do
    out[i] = ("%s %s %s"):format(h.suggestedArguments.view or h.nextTool, h.priority, h.reason:match("^%S+ %S+"))
  end
  return out
end

describe("hints for db-snapshot", function()
  it("point at what was repeated and slow, at an empty pool, and at the code", function()
    local bad = { incidents = { {} }, commands = { { p95_ms = 3 }, { p95_ms = 51 } }, pools = { { exhausted = 0 }, { exhausted = 2 } } }
    assert.same({
      "n+1 high The same", "byCommand normal Statements are", "connectionPool high The connection", "collect_sample normal See which",
    }, hints(bad, 7))
    assert.equal(3, #hints(bad, nil))
  end)

  it("say that nothing is slow when nothing is", function()
    local good = { incidents = {}, commands = { { p95_ms = 50 } }, pools = {} }
    assert.same({ "n+1 normal See whether", "byCommand normal See the", "collect_sample normal The database" }, hints(good, 7))
  end)
end)
