-- SPDX-License-Identifier: MIT
-- What the sandbox costs: a call of a box beside a plain call, and a finish function of a collector (rows from what reducers hold) inside
-- and outside of a box. `lunette lua tests/bench/sandbox/calls.lua`.
local loop = require("lunette.loop")
local sandbox = require("lunette.sandbox")

local SOURCE <const> = [[
  return function(groups)
    local rows, total = {}, 0
    for i, g in ipairs(groups) do
      total = total + g.n
      rows[i] = { name = g.name:match("([^.]+)$"), n = g.n, mean = g.sum / g.n, label = ("%s (%d)"):format(g.name, g.n) }
    end
    table.sort(rows, function(a, b) return a.n > b.n or a.n == b.n and a.name < b.name end)
    for _, row in ipairs(rows) do row.share = row.n / total end
    return rows
  end]]

local function groups_of(n)
  local list = {}
  for i = 1, n do list[i] = { name = "Company.Product.Service" .. i, n = (i * 7919) % 1009 + 1, sum = i * 10.5 } end
  return list
end

-- CPU nanoseconds of one call, the best of several rounds.
local function cost(n, fn, ...)
  local best = math.huge
  for _ = 1, 9 do
    local t0 = os.clock()
    for _ = 1, n do fn(...) end
    best = math.min(best, (os.clock() - t0) / n)
  end
  return best * 1e9
end

loop.set_budget(-1)
local box = sandbox.new { name = "bench.lua" }
local chunk = assert(box:load(SOURCE, "@bench.lua"))
local _, inside = box:call(chunk)
local outside = load(SOURCE)()
local function nothing() end
local wrapped = box:wrap(nothing)
print(("a plain call\t%.0f ns\nbox:call\t%.0f ns\na wrapped function\t%.0f ns"):format(
  cost(200000, nothing), cost(200000, function() box:call(nothing) end), cost(200000, wrapped)))
for _, n in ipairs { 20, 200, 2000 } do
  local groups = groups_of(n)
  local times = 20000 // n
  local plain = cost(times, outside, groups)
  local called = cost(times, function() return box:call(inside, groups) end)
  local guarded = cost(times, box:wrap(inside), groups)
  print(("finish over %d groups\tplain %.1f us\tbox:call %+.1f %%\twrapped %+.1f %%"):format(n, plain / 1e3,
    (called / plain - 1) * 100, (guarded / plain - 1) * 100))
end
print(("a new box\t%.1f us"):format(cost(500, sandbox.new, { name = "x" }) / 1e3))
