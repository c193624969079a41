-- SPDX-License-Identifier: MIT
local rows = require("collectors.event_source.rows")

local function event(i)
  return { unix_ns = 1700000000000000000 + i, provider = "Demo", name = i % 2 == 0 and "Even" or "Odd", level = 4 }
end

describe("collectors.event_source.rows", function()
  it("gives back what was stored, as a list", function()
    local store = rows.new()
    store:add(event(1), { text = "a \"quoted\" word", number = "1" })
    store:add(event(2), {})
    local list = store:list()
    assert.equal(2, #list)
    assert.same({ unix_ns = 1700000000000000001, provider = "Demo", name = "Odd", level = 4,
      payload = { text = "a \"quoted\" word", number = "1" } }, list[1])
    local seen = {}
    for i, e in ipairs(list) do seen[i] = e.name end
    assert.same({ "Odd", "Even" }, seen)
    assert.is_nil(next(list[2].payload))
    assert.is_nil(list[3])
    assert.same({ Odd = 1, Even = 1 }, store:by_name())
  end)

  it("keeps names apart that two providers share", function()
    local store = rows.new()
    store:add({ unix_ns = 1, provider = "A", name = "Ping", level = 1 }, {})
    store:add({ unix_ns = 2, provider = "B", name = "Ping", level = 2 }, {})
    local list = store:list()
    assert.same({ "A", "B" }, { list[1].provider, list[2].provider })
    assert.same({ Ping = 2 }, store:by_name())
  end)

  it("100,000 rows take less than 20 MB", function()
    collectgarbage()
    local before = collectgarbage("count")
    local store = rows.new()
    for i = 1, 100000 do store:add(event(i), { id = tostring(i), kind = "kind07", weight = "12" }) end
    collectgarbage()
    assert.is_true(collectgarbage("count") - before < 20 * 1024)
    assert.equal("100000", store:list()[100000].payload.id)
  end)
end)
