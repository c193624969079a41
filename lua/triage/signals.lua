-- SPDX-License-Identifier: MIT
-- Observed signals: direct threshold crossings, without interpretation. Edit the table to change what a triage notices.
local levels = require("triage.levels")

local M = {}

-- input: a name in triage.facts; levels: from which value on, the highest that holds counts. Comparisons are "at least".
M.RULES = {
  {
    name = "threadpool.queue", input = "queue", counter = "threadpool-queue-length", unit = "items", levels = { { 10, "elevated" } },
    summary = "The ThreadPool queue contained %s work items.",
    rationale = "The queue crossed the observation threshold; one window may be transient.",
  },
  {
    name = "threadpool.starvation", input = "queue", counter = "threadpool-queue-length", unit = "items",
    levels = { { 50, "elevated" }, { 200, "critical" } },
    summary = "%s work items wait for a ThreadPool thread.",
    rationale = "A queue of this length delays every item by far more than it runs.",
  },
  {
    name = "cpu.effective-core-consumption", input = "cores", counter = "cpu-usage", unit = "cores", levels = { { 0.8, "elevated" } },
    summary = "The process uses about %s processors' worth of CPU.",
    rationale = "cpu-usage times the target's own processor count; from 0.8 on about one core is saturated.",
  },
  {
    name = "cpu.usage", input = "cpu", counter = "cpu-usage", unit = "%", levels = { { 70, "elevated" }, { 90, "critical" } },
    summary = "CPU usage was %s %% of all processors.",
    rationale = "Little CPU is left for peaks above 70 %; above 90 % work waits for a processor.",
  },
  {
    name = "gc.time", input = "gc_time", counter = "time-in-gc", unit = "%", levels = { { 15, "elevated" }, { 30, "critical" } },
    summary = "%s %% of the time between collections went into GC.",
    rationale = "Above 15 % the collector costs a visible share of the throughput. Counted only when a collection ran in the window.",
  },
  {
    -- live, four threads on one monitor make 200 to 900 an interval, an idle or a busy healthy process none to a few
    name = "lock.contention", input = "contentions", counter = "monitor-lock-contention-count", unit = "contentions per interval",
    levels = { { 10, "elevated" }, { 100, "high" } },
    summary = "Threads had to wait for a monitor %s times an interval.",
    rationale = "Each contention is a thread that could not go on; a hundred an interval are no accident.",
  },
  {
    name = "requests.p95", input = "p95_ms", counter = "http.server.request.duration", unit = "ms", levels = { { 500, "elevated" } },
    summary = "The slowest request series had a p95 of %s ms.",
    rationale = "One request in twenty takes half a second or longer.",
  },
  {
    name = "runtime.silent-interval", input = "silent_s", counter = "EventCounters", unit = "s", levels = { { 1.75, "elevated" } },
    summary = "The runtime's counters were silent for %s s.",
    rationale = "Counters come once a second here: the process was stopped, starved of CPU, or its counter thread was held up.",
  },
}

M.GROWTH = {
  name = "memory.intra-window-growth", level = "elevated", percent = 20, mb = 1,
  metrics = {
    { input = "heap", counter = "gc-heap-size" }, { input = "loh", counter = "loh-size" },
    { input = "working_set", counter = "working-set" },
  },
  rationale = "First to last value of one window: at least 20 % and at least 1 MB, both on this metric. Its size does not matter.",
}

local ORDER <const> = { __order = { "name", "level", "summary", "evidence" } }

--- A number as people read it.
function M.plain(value)
  if value == math.floor(value) then return ("%d"):format(value) end
  return ("%.2f"):format(value)
end

local function crossing(rule, value)
  local level, threshold
  for _, step in ipairs(rule.levels) do
    if value >= step[1] then threshold, level = step[1], step[2] end
  end
  return level, threshold
end

--- Whether a trend is material growth.
---@param trend table?
function M.is_growth(trend)
  return trend ~= nil and trend.relativeChange ~= nil and trend.relativeChange * 100 >= M.GROWTH.percent
    and trend.deltaMb >= M.GROWTH.mb
end

local function growth(facts)
  local rule, evidence, names = M.GROWTH, {}, {}
  for _, metric in ipairs(rule.metrics) do
    local trend = facts[metric.input]
    if M.is_growth(trend) then
      local percent = trend.relativeChange * 100
      names[#names + 1] = ("%s by %s MB (%d %%)"):format(metric.counter, M.plain(trend.deltaMb), math.floor(percent + 0.5))
      evidence[#evidence + 1] = levels.evidence(metric.counter, percent, ">=", rule.percent, "%", rule.rationale)
      evidence[#evidence + 1] = levels.evidence(metric.counter, trend.deltaMb, ">=", rule.mb, "MB", rule.rationale)
    end
  end
  if #evidence == 0 then return nil end
  return setmetatable({
    name = rule.name, level = rule.level, summary = "Within the window grew: " .. table.concat(names, ", ") .. ".", evidence = evidence,
  }, ORDER)
end

--- TriageObservedSignal rows, the highest level first; and the same by name.
---@param facts TriageFacts
---@return table[] list, table<string, table> by_name
function M.observe(facts)
  local list, by_name = {}, {}
  for _, rule in ipairs(M.RULES) do
    local value = facts[rule.input]
    local level, threshold = nil, nil
    if value then level, threshold = crossing(rule, value) end
    if level then
      list[#list + 1] = setmetatable({
        name = rule.name, level = level, summary = rule.summary:format(M.plain(value)),
        evidence = { levels.evidence(rule.counter, value, ">=", threshold, rule.unit, rule.rationale) },
      }, ORDER)
    end
  end
  list[#list + 1] = growth(facts)
  for i, signal in ipairs(list) do by_name[signal.name], signal.rank = signal, i end
  table.sort(list, function(a, b)
    local x, y = levels.LEVEL[a.level], levels.LEVEL[b.level]
    if x ~= y then return x > y end
    return a.rank < b.rank
  end)
  for _, signal in ipairs(list) do signal.rank = nil end
  return list, by_name
end

return M
