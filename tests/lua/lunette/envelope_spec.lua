-- SPDX-License-Identifier: MIT
local envelope = require("lunette.envelope")
local handles = require("lunette.handles")
local new_hint = require("lunette.hints").new
local json = require("lunette.json")
local kit = require("support.framework_kit")
local safety = require("lunette.safety")
local tool = require("lunette.tool")

local function rows(n, size)
  local list = json.array({})
  for i = 1, n do list[i] = { i = i, text = ("x"):rep(size) } end
  return list
end

local function big_tool(n, size, handle, more)
  local declared = {
    name = "big", description = "d", risk = "low", params = { tool.depth(), { "topN", "int?", min = 1 } },
    run = function() return { list = rows(n, size), small = json.array({ 1, 2, 3 }) }, { summary = "Many rows.", handle = handle } end,
  }
  for k, v in pairs(more or {}) do declared[k] = v end
  return tool(declared)
end

describe("lunette.envelope #unit", function()
  it("a default answer stays at or below 16 KB, says what was cut, and where the rest is", function()
    local handle = handles.put({ kind = "counters", artifact = {}, origin = "trace" })
    local e, result = kit.call(big_tool(400, 100, handle))
    assert.is_true(#result.content[1].text <= 16384)
    assert.is_true(#e.data.list >= 100 and #e.data.list < 400)
    assert.same({ 1, 2, 3 }, { table.unpack(e.data.small) })
    assert.matches(("Many rows. Cut to fit: list (%d of 400 rows)"):format(#e.data.list), e.summary, 1, true)
    assert.matches(('query_snapshot(handle="%s")'):format(handle.id), e.summary, 1, true)
    handles.invalidate(handle.id)
  end)

  it("Detail, or a size that the caller asked for, may have 80 KB, and no more", function()
    for _, arguments in ipairs({ { depth = "Detail" }, { depth = "Raw" }, { topN = 400 } }) do
      local e, result = kit.call(big_tool(400, 100), arguments)
      assert.equal(400, #e.data.list)
      assert.is_true(#result.content[1].text > 16384)
    end
    local _, result = kit.call(big_tool(4000, 100), { depth = "Detail" })
    assert.is_true(#result.content[1].text <= 81920)
    assert.is_true(#result.content[1].text > 60000)
  end)

  it("leaves what the script keeps as it was", function()
    local kept = { list = rows(400, 100) }
    kit.call(big_tool(0, 0, nil, { run = function() return kept, { summary = "s" } end }))
    assert.equal(400, #kept.list)
  end)

  it("two lists of one length lose about the same", function()
    local e = kit.call(big_tool(0, 0, nil, { run = function()
      return { first = rows(20, 400), second = rows(20, 390), third = rows(5, 300) }, { summary = "Two." }
    end }))
    assert.is_true(#e.data.first >= 10 and #e.data.second >= 10, #e.data.first .. " and " .. #e.data.second)
    assert.equal(5, #e.data.third)
  end)

  it("cuts many short lists too, and says how many", function()
    local e, result = kit.call(big_tool(0, 0, nil, { run = function()
      local data = { groups = json.array({}) }
      for i = 1, 10 do data.groups[i] = { rows = rows(30, 100) } end
      return data, { summary = "Groups." }
    end }))
    assert.is_true(#result.content[1].text <= 16384)
    assert.matches("Cut to fit:", e.summary, 1, true)
  end)

  it("an answer that cannot be cut says so instead of going out too large", function()
    local e, result = kit.call(big_tool(0, 0, nil, { run = function() return { text = ("x"):rep(100000) }, { summary = "One." } end }))
    assert.is_true(#result.content[1].text <= 16384)
    assert.is_nil(e.data)
    assert.matches("larger than 16384 bytes", e.summary, 1, true)
  end)

  it("what stands beside the data is cut when it is too long: an error, its detail, hints, signals", function()
    local long = ("x"):rep(100000)
    local failed = big_tool(0, 0, nil, { run = function()
      return nil, { kind = "NotFound", message = long, detail = { long }, hints = { new_hint("big", long, { text = long }) } }
    end })
    local e, result = kit.call(failed)
    assert.is_true(#result.content[1].text <= 16384)
    assert.same({ "NotFound", 2048, nil, 2048 }, { e.error.kind, #e.error.message, e.error.detail, #e.hints[1].reason })
    assert.is_nil(e.hints[1].suggestedArguments)
    local told = big_tool(0, 0, nil, { run = function()
      local one = { signal = "s", summary = long, salience = 1, buckets = { { key = long, magnitude = 1, unit = "n" } } }
      return { n = 1, text = long }, { summary = "Signals.", signals = { one } }
    end })
    e, result = kit.call(told)
    assert.is_true(#result.content[1].text <= 16384)
    assert.same({ 2048, 0 }, { #e.signals[1].summary, #e.signals[1].buckets })
  end)

  it("text leaves as valid UTF-8, whatever the script gives", function()
    local e, result = kit.call(big_tool(0, 0, nil, { run = function()
      return { text = "a\xffb" }, { summary = ("é"):rep(1000) .. "\xc3" }
    end }))
    assert.is_truthy(utf8.len(result.content[1].text))
    assert.is_truthy(utf8.len(e.summary))
    assert.is_true(#e.summary <= 1024)
  end)

  it("at most eight hints go out", function()
    local hints = {}
    for i = 1, 20 do hints[i] = require("lunette.hints").new("t" .. i, "r") end
    assert.equal(8, #envelope.build({ summary = "s", hints = hints, safety = safety.descriptor("low") }).hints)
  end)

  it("an empty list of hints is [] and the members come in a fixed order", function()
    local body = envelope.encode(envelope.build({ summary = "s", safety = safety.descriptor("low"), data = { x = 1 } }), 16384)
    assert.matches('^{"summary":"s","data":{"x":1},"hints":%[%],"safety":{"riskLevel":"low"', body)
    assert.matches('"cancelled":false}$', body)
  end)
end)
