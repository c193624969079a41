-- SPDX-License-Identifier: MIT
-- heap.by-type: a type that makes up much of a heap stands out; what fills every heap, and small heaps, do not.
local signal = require("lunette.signal")

local function artifact(bytes, types, quality)
  local rows = {}
  for i, t in ipairs(types) do rows[i] = { name = t[1], bytes = t[2], count = 1 } end
  return { info = { bytes = bytes }, quality = quality, graph = { types = function() return rows, #rows end } }
end

local function found(bytes, types, quality)
  for _, s in ipairs(signal.of_capture("heap-snapshot", artifact(bytes, types, quality), "H")) do
    if s.signal == "heap.by-type" then return s end
  end
  return nil
end

describe("heap.by-type", function()
  it("names the type, its bytes, and the view that tells more", function()
    local s = found(100e6, { { "System.String", 50e6 }, { "Shop.Order", 40e6 }, { "Shop.Line", 5e6 } })
    assert.near(0.4, s.salience, 1e-9)
    assert.same({ "Shop.Order", 40e6 }, { s.buckets[1].key, s.buckets[1].magnitude })
    assert.equal("40 % of the heap are objects of one type.", s.summary)
    assert.same({ handle = "H", view = "retained" }, s.nextAction.suggestedArguments)
  end)

  it("is silent of strings and arrays, of many small types, and of a small heap", function()
    assert.is_nil(found(100e6, { { "System.String", 90e6 }, { "System.Byte[]", 5e6 } }))
    assert.is_nil(found(100e6, { { "A", 10e6 }, { "B", 9e6 } }))
    assert.is_nil(found(1e6, { { "A", 0.9e6 } }))
  end)

  it("is silent of a capture that broke off", function()
    assert.is_nil(found(100e6, { { "A", 90e6 } }, { gc_stopped = false }))
    assert.truthy(found(100e6, { { "A", 90e6 } }, { gc_stopped = true }))
  end)
end)
