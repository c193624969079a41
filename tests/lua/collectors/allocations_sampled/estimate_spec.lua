-- SPDX-License-Identifier: MIT
-- The estimates of sampled allocations: exact where nothing is random, right on average, and within their bounds as often as they say.
local estimate = require("collectors.allocations_sampled.estimate")

local P <const> = 1 / 102400

--- Draws as the runtime does: each object of s bytes with probability 1 - (1 - P)^s. Returns the sums of the sampled ones, and the truth.
local function draw(objects)
  local s = { n = 0, seen = 0, objects = 0, objects_var = 0, objects_max = 0, bytes = 0, bytes_var = 0, bytes_max = 0 }
  local truth = { bytes = 0, objects = 0 }
  for _, kind in ipairs(objects) do
    local size, count = kind[1], kind[2]
    truth.bytes, truth.objects = truth.bytes + size * count, truth.objects + count
    local w = estimate.weight(size)
    local log_miss, at = -size * estimate.RATE, 0
    while true do
      at = at + math.floor(math.log(1 - math.random()) / log_miss) + 1 -- the next one that is sampled
      if at > count then break end
      s.n, s.seen = s.n + 1, s.seen + size
      s.objects, s.objects_var, s.objects_max = s.objects + w, s.objects_var + w * w - w, math.max(s.objects_max, w)
      s.bytes, s.bytes_var = s.bytes + size * w, s.bytes_var + size * size * (w * w - w)
      s.bytes_max = math.max(s.bytes_max, size * w)
    end
  end
  return s, truth
end

local RUNS <const> = 400

local function coverage(objects)
  math.randomseed(20260101, 7)
  local bytes, counts, sum = 0, 0, 0
  local truth
  for _ = 1, RUNS do
    local sums
    sums, truth = draw(objects)
    local e = estimate.of(sums)
    if e.bytes_low <= truth.bytes and truth.bytes <= e.bytes_high then bytes = bytes + 1 end
    if e.objects_low <= truth.objects and truth.objects <= e.objects_high then counts = counts + 1 end
    sum = sum + e.bytes
  end
  return bytes / RUNS, counts / RUNS, sum / RUNS / truth.bytes
end

describe("collectors.allocations_sampled.estimate #unit", function()
  it("weighs an object by the inverse of its chance: 1/P for a byte, hardly more than 1 for what cannot be missed", function()
    assert.near(1 / P, estimate.weight(1), 1e-6)
    assert.near(1 / (1 - (1 - P) ^ 1024), estimate.weight(1024), 1e-9)
    assert.near(1 / (1 - (1 - P) ^ 200024), estimate.weight(200024), 1e-12)
    assert.equal(1, estimate.weight(10000000))
  end)

  for name, objects in pairs {
    ["small objects"] = { { 40, 100000 } }, ["arrays of 1 KB"] = { { 1024, 20000 } }, ["few arrays of 1 KB"] = { { 1024, 1000 } },
    ["large arrays"] = { { 200024, 500 } }, ["a mix of sizes"] = { { 24, 50000 }, { 1024, 3000 }, { 200024, 30 }, { 5000000, 3 } },
  } do
    it("holds the truth within its bounds, and is right on average: " .. name, function()
      local bytes, counts, mean = coverage(objects)
      assert.is_true(bytes >= 0.98, ("bytes within the bounds in %.1f %% of runs"):format(bytes * 100))
      assert.is_true(counts >= 0.98, ("objects within the bounds in %.1f %% of runs"):format(counts * 100))
      assert.near(1, mean, 0.05)
    end)
  end

  it("has narrow bounds where they can be narrow, and wide ones for one sample", function()
    local n, w = 10000, estimate.weight(1024)
    local e = estimate.of {
      n = n, seen = n * 1024, objects = n * w, objects_var = n * (w * w - w), objects_max = w, bytes = n * w * 1024,
      bytes_var = n * (w * w - w) * 1024 ^ 2, bytes_max = w * 1024,
    }
    assert.is_true((e.bytes_high - e.bytes_low) / e.bytes < 0.053) -- 2 x 2.576 / sqrt(10,000)
    local one = estimate.of {
      n = 1, seen = 1024, objects = w, objects_var = w * w - w, objects_max = w, bytes = w * 1024, bytes_var = (w * w - w) * 1024 ^ 2,
      bytes_max = w * 1024,
    }
    assert.equal(1024, one.bytes_low) -- what was seen is certain
    assert.is_true(one.bytes_high > 6 * one.bytes and one.bytes_high < 9 * one.bytes) -- Poisson: 7.43
  end)

  it("says of nothing sampled how much may have been missed", function()
    local e = estimate.of { n = 0 }
    assert.same({ 0, 0, 0 }, { e.bytes, e.bytes_low, e.objects })
    assert.equal(estimate.detection_limit(), e.bytes_high)
    assert.near(0.005, (1 - P) ^ e.bytes_high, 1e-5)
  end)

  it("takes what cannot be missed for exact", function()
    local e = estimate.of {
      n = 3, seen = 15000000, objects = 3, objects_var = 0, objects_max = 1, bytes = 15000000, bytes_var = 0, bytes_max = 5000000,
    }
    assert.same({ 15000000, 15000000, 3, 3 }, { e.bytes, e.bytes_low, e.objects, e.objects_low })
  end)
end)
