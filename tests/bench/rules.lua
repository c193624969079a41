-- SPDX-License-Identifier: MIT
-- What rules cost: lunette lua tests/bench/rules.lua [RULES]. Judges one window of 100 counters by so many rules of all sorts.
local compile = require("lunette.rules.compile")
local rules = require("lunette.rules")
local series = require("collectors.counters.series")

local N <const> = math.tointeger(tonumber((...) or 500))
local COUNTERS <const> = 100
local ROUNDS <const> = 50

local function window()
  local artifact = { counters = {}, meters = {}, notes = {}, processor_count = 2 }
  for i = 1, COUNTERS do
    local s = series.new()
    for k = 1, 5 do series.add(s, i * k) end
    artifact.counters[i] = { provider = "Bench", name = "c" .. i, series = s, interval_s = 1 }
  end
  return artifact
end

local function rule(i)
  local counter = "Bench/c" .. i % COUNTERS + 1
  local r = {
    name = "bench." .. i, summary = "{value} of it.", rationale = "Because.", unit = "items",
    indicator = { from = { elevated = 1e6, high = 2e6, critical = 3e6 }, span = 1e6 },
    hypotheses = { {
      name = "bench.h" .. i, summary = "It may be.", confidence = "low", next = { tool = "collect_events", reason = "See." },
      requires = { { counter = counter, stat = "mean", at_least = 1 } }, contradicts = { { counter = counter, stat = "min", below = 0 } },
    } },
  }
  if i % 5 == 0 then
    r.inputs, r.change, r.level, r.summary = { { counter = counter } }, { percent = 500 }, "high", "Grew: {changes}."
    r.indicator = { from = { elevated = 20, high = 100 } }
  else
    r.input, r.levels = { counter = counter, stat = i % 2 == 0 and "mean" or "last" }, { elevated = 480, high = 490, critical = 499 }
    if i % 7 == 0 then r.input = { from = { { counter = counter }, { counter = "Bench/c1" } }, of = function(a, b) return a / b end } end
  end
  return { name = r.name, value = r, file = "bench" }
end

local function ms(fn, rounds)
  local best, sum = math.huge, 0
  for _ = 1, rounds do
    local from = os.clock() * 1e9
    fn()
    local took = (os.clock() * 1e9 - from) / 1e6
    best, sum = math.min(best, took), sum + took
  end
  return best, sum / rounds
end

local files = {}
for i = 1, N do files[i] = rule(i) end
local set = compile.compile(files)
assert(#set.problems == 0 and #set.rules == N)
local artifact, fired = window(), 0
local function judge()
  local w = rules.window(set, { counters = artifact })
  local observed = rules.observe(set, w)
  local hypotheses = rules.weigh(set, w, 42)
  rules.assess(set, w, observed, hypotheses)
  rules.rank(set, w, 5)
  fired = #observed
end
local compile_ms = ms(function() compile.compile(files) end, 5)
local best, mean = ms(judge, ROUNDS)
print(("%d rules, %d fired: judged in %.2f ms (mean %.2f), compiled in %.1f ms"):format(N, fired, best, mean, compile_ms))
return best < 5 and 0 or 1, best
