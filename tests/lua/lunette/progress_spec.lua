-- SPDX-License-Identifier: MIT
local kit = require("support.framework_kit")
local loop = require("lunette.loop")
local progress = require("lunette.progress")
local tool = require("lunette.tool")

-- A tool whose window lasts `ms`.
local function window(ms, options)
  return tool({ name = "t", description = "d", risk = "low", run = function(ctx)
    local _ <close> = progress.start(ctx, options)
    local ok, err = loop.sleep_ms(ms)
    if not ok then return nil, err end
    return {}, { summary = "s" }
  end })
end

describe("progress #unit", function()
  it("notifications come about once a second and end with 100 on success", function()
    local ctx = kit.ctx()
    local began, times = loop.now_ms(), {}
    local report = ctx.progress
    function ctx.progress(...)
      times[#times + 1] = loop.now_ms() - began
      return report(...)
    end
    -- a window of five seconds that ends when two were told: on a busy machine they come late, but none before its time
    kit.call(tool({ name = "t", description = "d", risk = "low", run = function(c)
      local _ <close> = progress.start(c, { seconds = 5, message = "Collecting" })
      while #ctx.reported < 2 and loop.now_ms() - began < 30000 do loop.sleep_ms(5) end
      return {}, { summary = "s" }
    end }), {}, ctx)
    assert.equal(3, #ctx.reported)
    for i = 1, 2 do
      local value, total, message = table.unpack(ctx.reported[i], 1, 3)
      assert.is_true(times[i] >= i * 1000 - 1 and value >= i * 20 and value < 100, value)
      assert.is_true(value <= times[i] / 50 + 1, value)
      assert.equal(100, total)
      assert.equal("Collecting", message)
    end
    assert.same({ 100, 100 }, ctx.reported[3])
  end)

  it("without a window it is a heartbeat that has no total before the end", function()
    local ctx = kit.ctx()
    kit.call(window(1200, {}), {}, ctx)
    assert.same({ 1 }, ctx.reported[1])
    assert.same({ 100, 100 }, ctx.reported[2])
  end)

  it("never goes back and never claims to be done early", function()
    assert.equal(0, progress.percent(0, 5))
    assert.equal(50, progress.percent(2500, 5))
    assert.equal(99, progress.percent(60000, 5))
  end)

  it("a cancelled window stops reporting", function()
    local ctx = kit.ctx()
    local task = loop.spawn(function() return kit.call(window(60000, { seconds = 60 }), {}, ctx) end)
    loop.sleep_ms(1100)
    task:cancel("enough")
    task:await(1000)
    local n = #ctx.reported
    assert.equal(1, n)
    loop.sleep_ms(1200)
    assert.equal(n, #ctx.reported)
  end)

  it("one task may open more windows than it has room for cleanup handlers", function()
    for _ = 1, 300 do
      local _ <close> = progress.start(kit.ctx(), { seconds = 1 })
    end
    local kept = progress.start(kit.ctx(), { seconds = 1 })
    assert.is_not_nil(kept.task)
    kept:stop()
    assert.is_nil(kept.task)
  end)
end)
