-- SPDX-License-Identifier: MIT
-- The flat objects of the logging EventSource, whole and cut.
local flat_json = require("collectors.logs.flat_json")

describe("collectors.logs.flat_json", function()
  it("gives members in their order, escapes opened", function()
    assert.same({
      { "a", "x", true }, { "b", "quote \" back \\ line \n", true }, { "emoji", "\u{1F600}", true }, { "{OriginalFormat}", "hi {a}", true },
    }, flat_json.members([[{"a":"x","b":"quote \" back \\ line \n","emoji":"\uD83D\uDE00","{OriginalFormat}":"hi {a}"}]]))
  end)

  it("takes what is no text as it is written", function()
    assert.same({ { "n", "null", true }, { "i", "42", true }, { "s", "x", true } }, flat_json.members([[{ "n": null, "i": 42, "s": "x" }]]))
  end)

  it("gives what is there of a cut one, without half an escape", function()
    assert.same({ { "a", "x", true }, { "b", "half", false } }, flat_json.members([[{"a":"x","b":"half]]))
    for _, tail in ipairs { [[\]], [[\u]], [[\uD]], [[\u12]], [[\uD83]] } do
      assert.same({ { "a", "half", false } }, flat_json.members([[{"a":"half]] .. tail), tail)
    end
    assert.same({ { "a", "x", true } }, flat_json.members([[{"a":"x","b]]))
    assert.same({ { "a", "x", true } }, flat_json.members([[{"a":"x","b":]]))
  end)

  it("gives nothing for what is no object", function()
    for _, text in ipairs { "", "{}", "[1]", "null", "{,}", "\"x\"" } do assert.same({}, flat_json.members(text), text) end
    assert.same({}, flat_json.members(nil))
  end)

  it("ends for hostile text", function()
    assert.same({}, flat_json.members("{" .. ("\\"):rep(10000)))
    assert.equal(64, #flat_json.members("{" .. ('"a":"b",'):rep(10000) .. "}"))
  end)

  it("finds a value by its name", function()
    assert.same({ "T", true }, { flat_json.value([[{"TypeName":"T","Message":"m"}]], "TypeName") })
    assert.is_nil(flat_json.value("{}", "TypeName"))
  end)
end)
