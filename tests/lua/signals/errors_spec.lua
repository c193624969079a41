-- SPDX-License-Identifier: MIT
-- The signals of failed spans and of logged errors: who stands for most of them, and when nobody does.
local activities = require("signals.activities_errors")
local logs = require("signals.logs_errors")

local function spans(...)
  local rows = {}
  for i, n in ipairs { ... } do rows[i] = { source = "S", operation = "op" .. i, errors = n } end
  return activities.of({ by_operation = rows }, "H")
end

local function messages(...)
  local rows = {}
  for i, n in ipairs { ... } do rows[i] = { category = "C" .. i, errors = n } end
  return logs.of({ categories = rows }, "H")
end

describe("signals.activities_errors", function()
  it("names the operation with most failed spans", function()
    local s = spans(0, 2, 6)[1]
    assert.same({ "activities.errors-by-operation", 0.75, "S/op3", 6, "spans", "H", "byOperation" }, {
      s.signal, s.salience, s.buckets[1].key, s.buckets[1].magnitude, s.buckets[1].unit, s.buckets[1].handle,
      s.nextAction.suggestedArguments.view,
    })
    assert.equal(2, #s.buckets)
    assert.equal("75 % of 8 failed spans are of one operation: op3 of S.", s.summary)
  end)

  it("is silent for few, and when they are spread", function()
    assert.same({}, spans(4))
    assert.same({}, spans(2, 2, 2, 2))
    assert.same({}, spans())
    assert.equal(1, #spans(3, 3)) -- a half is enough
  end)
end)

describe("signals.logs_errors", function()
  it("names the category with most errors", function()
    local s = messages(1, 0, 9)[1]
    assert.same({ "logs.errors-by-category", 0.9, "C3", 9, "messages", "errors" },
      { s.signal, s.salience, s.buckets[1].key, s.buckets[1].magnitude, s.buckets[1].unit, s.nextAction.suggestedArguments.view })
  end)

  it("is silent for few, and when they are spread", function()
    assert.same({}, messages(4))
    assert.same({}, messages(2, 2, 2))
    assert.same({}, messages())
  end)

  it("has at most five buckets", function()
    assert.equal(5, #messages(50, 1, 1, 1, 1, 1, 1)[1].buckets)
  end)
end)
