-- SPDX-License-Identifier: MIT
-- Ranked indicators: each headline metric as a score of 0 to 100 with a level, whatever the hypotheses say.
local json = require("lunette.json")
local numbers = require("lunette.numbers")
local signals = require("triage.signals")

local M = {}

M.MAX = 5

-- from: where elevated, high and critical begin; span: how far beyond critical the score reaches 100.
-- quiet: below elevated the score is 0 instead of a share of 20. above_zero: reported only when there is something.
M.RULES = {
  { name = "cpu-usage", input = "cpu", unit = "%", from = { 30, 70, 90 }, span = 10 },
  { name = "time-in-gc", input = "gc_time", unit = "%", from = { 5, 15, 30 }, span = 20 },
  { name = "threadpool-queue-length", input = "queue", unit = "items", from = { 10, 50, 200 }, span = 300 },
  { name = "monitor-lock-contention-count", input = "contentions", unit = "contentions", from = { 3, 10, 50 }, span = 50 },
  { name = "alloc-rate", input = "alloc_bytes", scale = 1e-6, unit = "MB/s", from = { 10, 50, 100 }, span = 100 },
  { name = "gen-2-gc-count", input = "gen2", unit = "collections", from = { 1, 3, 10 }, span = 10, quiet = true },
  { name = "exception-count", input = "exceptions", unit = "exceptions", from = { 1, 10, 50 }, span = 50, quiet = true, above_zero = true },
  { name = "request-duration-p95", input = "p95_ms", unit = "ms", from = { 100, 500, 2000 }, span = 3000, above_zero = true },
}

-- Growth of a metric in percent; above normal only when it is material.
M.GROWTH = {
  { name = "gc-heap-size-growth", input = "heap" }, { name = "loh-size-growth", input = "loh" },
  { name = "working-set-growth", input = "working_set" },
}
M.GROWTH_FROM = { 20, 100 } -- percent: elevated, high

local ORDER <const> = { __order = { "name", "value", "unit", "score", "level" } }

--- Score and level of a value.
---@param rule table
---@param x number
function M.score(rule, x)
  local elevated, high, critical = table.unpack(rule.from)
  if x >= critical then return math.min(100, 80 + (x - critical) / rule.span * 20), "critical" end
  if x >= high then return 50 + (x - high) / (critical - high) * 30, "high" end
  if x >= elevated then return 20 + (x - elevated) / (high - elevated) * 30, "elevated" end
  return rule.quiet and 0 or math.max(0, x / elevated * 20), "normal"
end

local function growth_score(trend)
  local percent = trend.relativeChange * 100
  local elevated, high = table.unpack(M.GROWTH_FROM)
  if not signals.is_growth(trend) then return math.max(0, math.min(19, percent / elevated * 20)), "normal" end
  if percent >= high then return math.min(79, 50 + (percent - high) / high * 29), "high" end
  return 20 + (percent - elevated) / (high - elevated) * 30, "elevated"
end

local function row(name, value, unit, score, level)
  return setmetatable({ name = name, value = numbers.round(value, 2), unit = unit, score = math.floor(score), level = level }, ORDER)
end

--- TriageIndicator rows, highest score first, at most M.MAX.
---@param facts TriageFacts
function M.rank(facts)
  local list = {}
  local function add(r)
    r.rank = #list + 1
    list[r.rank] = r
  end
  for _, rule in ipairs(M.RULES) do
    local value = facts[rule.input]
    if value and (not rule.above_zero or value > 0) then
      value = value * (rule.scale or 1)
      add(row(rule.name, value, rule.unit, M.score(rule, value)))
    end
  end
  for _, rule in ipairs(M.GROWTH) do
    local trend = facts[rule.input]
    if trend and trend.relativeChange then add(row(rule.name, trend.relativeChange * 100, "%", growth_score(trend))) end
  end
  table.sort(list, function(a, b)
    if a.score ~= b.score then return a.score > b.score end
    return a.rank < b.rank
  end)
  local top = json.array({})
  for i = 1, math.min(M.MAX, #list) do
    list[i].rank = nil
    top[i] = list[i]
  end
  return top
end

return M
