-- SPDX-License-Identifier: MIT
-- The scopes around a message, by activity ids.
local scopes = require("collectors.logs.scopes")

local function around(rows, activity, bytes) return scopes.new(rows, bytes or 4096):around(activity) end

local ROWS <const> = {
  { activity = "A", arguments = [[{"OrderId":"7","who":"outer"}]] },
  { activity = "B", related = "A", arguments = [[{"Step":"pay","{OriginalFormat}":"Step {Step}","who":"inner"}]] },
  { activity = "C", related = "gone", arguments = [[{"{OriginalFormat}":"plain text"}]] },
  { activity = "D", related = "B", arguments = "{}" },
}

describe("collectors.logs.scopes", function()
  it("gives the values of all scopes around, the inner one of the same name", function()
    assert.same({ OrderId = "7", who = "outer" }, around(ROWS, "A"))
    assert.same({ OrderId = "7", who = "inner", Step = "pay" }, around(ROWS, "B"))
    assert.same({ OrderId = "7", who = "inner", Step = "pay" }, around(ROWS, "D"))
  end)

  it("shows the template of a scope that has nothing else", function()
    assert.same({ ["{OriginalFormat}"] = "plain text" }, around(ROWS, "C"))
  end)

  it("gives none without an id, for one that is not known, and for empty ones", function()
    assert.is_nil(around(ROWS, nil))
    assert.is_nil(around(ROWS, "X"))
    assert.is_nil(around({ { activity = "E", arguments = "{}" } }, "E"))
  end)

  it("takes secrets out of names and values, by the name too, and cuts values", function()
    local rows = { { activity = "A", arguments = [[{"Password":"hunter2","note":"Bearer hunter22","password=hunter2":"x","long":"]]
      .. ("é"):rep(100) .. [["}]] } }
    local got = around(rows, "A", 64)
    assert.same({ "<redacted:sensitive>", "Bearer <redacted:sensitive>" }, { got.Password, got.note })
    assert.equal("<redacted:sensitive>", got["password=<redacted:sensitive>"])
    assert.is_true(#got.long <= 64 and utf8.len(got.long) ~= nil)
  end)

  it("drops the half word of a value that was cut", function()
    local got = around({ { activity = "A", arguments = [[{"a":"some words AKIAIOSFOD]] } }, "A")
    assert.equal("some words ...", got.a)
  end)

  it("does not follow a circle for ever", function()
    assert.same({ a = "1", b = "2" }, around({ { activity = "A", related = "B", arguments = [[{"a":"1"}]] },
      { activity = "B", related = "A", arguments = [[{"b":"2"}]] } }, "A"))
  end)

  it("knows whether the stream has ids at all", function()
    assert.is_true(scopes.new(ROWS, 64).attributed)
    assert.is_false(scopes.new({ { arguments = "{}" } }, 64).attributed)
  end)
end)
