-- SPDX-License-Identifier: MIT
-- views.process.sampling: readings over a window, and how many of them an answer holds.
local fake = require("support.fake_machine")

local function on(p)
  local machine = fake.new { processes = { p } }
  return machine:load("views.process.sampling"), { pid = p.pid, start_time = p.start_time }
end

describe("views.process.sampling", function()
  it("takes one reading for a window of nothing", function()
    local sampling, target = on(fake.process { pid = 5 })
    local rows, times, ended = sampling.watch(target, { seconds = 0, every_seconds = 2, at_least = 1 }, function() return {} end)
    assert.same({ 1, 1, false }, { #rows, #times, ended })
  end)

  it("takes the last reading at the window's end, however the interval divides it", function()
    local sampling, target = on(fake.process { pid = 5 })
    local rows, times
    for _ = 1, 50 do -- on a machine that stands still for a while the middle one has no time left
      rows, times = sampling.watch(target, { seconds = 0.05, every_seconds = 0.03, at_least = 1 }, function() return {} end)
      if #rows > 2 then break end
    end
    assert.equal(3, #rows)
    assert.is_true(times[3] - times[1] >= 50)
    rows = sampling.watch(target, { seconds = 0.02, every_seconds = 10, at_least = 1 }, function() return {} end)
    assert.equal(2, #rows)
  end)

  it("hands on what a reading fails with", function()
    local sampling, target = on(fake.process { pid = 5 })
    local rows, err = sampling.watch(target, { seconds = 0, every_seconds = 1, at_least = 1 }, function()
      return nil, { kind = "Cancelled", message = "no longer wanted" }
    end)
    assert.same({ nil, "Cancelled" }, { rows, err.kind })
  end)

  it("shows at most 120 readings, evenly spread, with the first and the last, and says so", function()
    local sampling = on(fake.process { pid = 5 })
    local rows = {}
    for i = 1, 301 do rows[i] = i end
    local kept, note = sampling.thin(rows)
    assert.same({ 120, 1, 301 }, { #kept, kept[1], kept[120] })
    for i = 2, #kept do
      local step = kept[i] - kept[i - 1]
      assert.is_true(step == 2 or step == 3)
    end
    assert.matches("120 of 301", note)
    kept, note = sampling.thin { 1, 2, 3 }
    assert.same({ { 1, 2, 3 } }, { kept, note })
  end)
end)
