-- SPDX-License-Identifier: MIT
-- One step means one step: the host takes turns among tasks that compute, but not within an atomic section.
local atomic = require("lunette.atomic")
local loop = require("lunette.loop")

local SPIN_MS <const> = 12 -- several slices; of CPU time, since that is what slices are measured in

local function spin(state)
  local t0 = loop.cpu_ms()
  local seen = state.value
  local changed = false
  while loop.cpu_ms() - t0 < SPIN_MS do
    changed = changed or state.value ~= seen
    state.value = state.value + 1
    seen = state.value
  end
  return changed
end

local function race(fn)
  local state = { value = 0 }
  local tasks = {}
  for i = 1, 3 do
    tasks[i] = loop.spawn(function()
      local changed = false
      for _ = 1, 3 do changed = fn(state) or changed end
      return changed
    end)
  end
  local changed = false
  for _, task in ipairs(tasks) do changed = task:await() or changed end
  return changed
end

describe("atomic", function()
  it("is needed: tasks that compute are suspended where they stand", function() assert.is_true(race(spin)) end)

  it("keeps other tasks out until it returns", function() assert.is_false(race(atomic(spin))) end)

  it("passes arguments, results and errors", function()
    assert.same({ 3, "b" }, { atomic(function(a, b) return a + b, "b" end)(1, 2) })
    local ok, err = pcall(atomic(function() error("boom", 0) end))
    assert.same({ false, "boom" }, { ok, err })
    assert.same({ 5, nil }, { atomic(function(_, _, _, _, e) return e end)(1, 2, 3, 4, 5) })
  end)

  it("may not wait", function()
    local ok = pcall(atomic(function() return loop.sleep_ms(1) end))
    assert.is_false(ok)
  end)
end)
