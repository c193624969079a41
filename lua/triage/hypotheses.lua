-- SPDX-License-Identifier: MIT
-- Hypotheses: bounded interpretations of the signals of one window, each with evidence for and against and one neutral next step.
-- Never a claim of I/O, never of a leak: counters cannot show either. Edit the table to change what a triage concludes.
local hints = require("lunette.hints")
local json = require("lunette.json")
local levels = require("triage.levels")

local M = {}

local WINDOW_S <const> = 10

-- A condition is { input, comparison, threshold, unit, counter, rationale }.
local LITTLE_CPU <const> = {
  "cores", "<", 0.2, "cores", "cpu-usage", "Less than a fifth of one core is used: threads wait rather than compute.",
}
local LITTLE_CPU_UNKNOWN_TOPOLOGY <const> = {
  "cpu", "<", 20, "%", "cpu-usage", "Little CPU; how many cores that is cannot be told: the target did not announce its processors.",
}

-- For what is plain without it: no core is near saturation.
local SPARE_CPU <const> = {
  "cores", "<", 0.8, "cores", "cpu-usage", "No core is near saturation: threads are held rather than computing.",
}

-- signals: all must be observed. cpu: the condition on CPU. unless: signals that must not be there. stronger: when all its conditions hold,
-- confidence rises to its first word. contradicts: conditions that speak against it when they hold. next: the step.
M.RULES = {
  {
    name = "work.waiting-or-backpressure", signals = { "threadpool.queue", "requests.p95" }, cpu = LITTLE_CPU,
    unless = { "cpu.effective-core-consumption" }, confidence = "medium",
    summary = "Requests are slow while work queues and the CPU is nearly idle: work waits for something. What for, counters cannot tell.",
    next = { "collect_thread_snapshot", nil, "See where the threads wait." },
  },
  {
    name = "threadpool.workers-held", signals = { "threadpool.starvation" }, cpu = SPARE_CPU,
    unless = { "cpu.effective-core-consumption" }, confidence = "low", stronger = {
      "medium", { "pool_threads_added", ">=", 1, "threads", "threadpool-thread-count", "The pool adds threads because none comes free." },
    },
    summary = "Work items wait although there is CPU to spare: the pool's threads are held by something that blocks them.",
    next = { "collect_events", { kind = "threadpool", durationSeconds = WINDOW_S }, "See how the pool grows and what is queued." },
  },
  {
    name = "cpu.saturation", signals = { "cpu.usage" }, confidence = "medium",
    contradicts = { { "gc_time", ">=", 15, "%", "time-in-gc", "A good part of this CPU may be the garbage collector's." } },
    summary = "The process keeps most of the machine's processors busy.",
    next = { "collect_sample", { kind = "cpu", durationSeconds = WINDOW_S, topN = 25 }, "See which methods run." },
  },
  {
    name = "memory.gc-pressure", signals = { "gc.time" }, confidence = "medium",
    contradicts = { { "gc_count", "<", 2, "collections", "gen-0-gc-count", "A single collection says little about a rate." } },
    summary = "Garbage collections take a visible share of the time.",
    next = { "collect_events", { kind = "gc", durationSeconds = WINDOW_S }, "See the collections, their causes and pauses." },
  },
  {
    name = "locks.threads-queue-up", signals = { "lock.contention" }, confidence = "low",
    stronger = {
      "medium", {
        "contentions", ">=", 100, "contentions per interval", "monitor-lock-contention-count", "Waits come all the time, not now and then.",
      },
    },
    contradicts = {
      { "cpu", ">=", 70, "%", "cpu-usage", "The processors are busy: holders of locks may just lack CPU." },
    },
    summary = "Threads keep waiting for monitors that others hold. How long they wait, counters do not tell.",
    next = { "collect_events", { kind = "contention", durationSeconds = WINDOW_S }, "See which locks, who holds them, and for how long." },
  },
  {
    name = "memory.footprint-growth", signals = { "memory.intra-window-growth" }, confidence = "low",
    stronger = {
      "medium", { "gc_count", ">=", 2, "collections", "gen-0-gc-count", "Collections ran, and the memory stayed." },
      { "growth_metrics", ">=", 2, "metrics", "gc-heap-size and working-set", "Heap and working set grew together." },
      { "heap_growth_mb", ">=", 5, "MB", "gc-heap-size", "Growth of this size within seconds is no noise." },
      { "heap_falls", "<=", 1, "falls", "gc-heap-size", "The heap hardly ever shrank in between." },
    },
    contradicts = {
      { "gc_count", "<", 1, "collections", "gen-0-gc-count", "No collection ran: what was allocated may all be garbage." },
    },
    summary = "The memory footprint grew within the window. Whether it stays, only a longer trend and two heap snapshots can tell.",
    next = { "inspect_process", { view = "memory_trend", durationSeconds = 30 }, "See whether it goes on growing." },
  },
}

local ORDER <const> = { __order = { "name", "summary", "confidence", "supportingEvidence", "contradictingEvidence", "nextStep" } }

local function as_evidence(facts, c) return levels.evidence(c[5], facts[c[1]], c[2], c[3], c[4], c[6]) end

local function all_observed(names, by_name)
  for _, name in ipairs(names) do
    if not by_name[name] then return false end
  end
  return true
end

local function any_observed(names, by_name)
  for _, name in ipairs(names or {}) do
    if by_name[name] then return true end
  end
  return false
end

--- Confidence, and the evidence that raised it.
local function weigh(rule, facts)
  if not rule.stronger then return rule.confidence, {} end
  local evidence = {}
  for i = 2, #rule.stronger do
    local c = rule.stronger[i]
    if not levels.holds(facts[c[1]], c[2], c[3]) then return rule.confidence, {} end
    evidence[#evidence + 1] = as_evidence(facts, c)
  end
  return rule.stronger[1], evidence
end

--- The rule's condition on CPU in the form that can be judged; nil when it does not hold.
local function cpu_condition(rule, facts)
  local c = facts.cores and rule.cpu or LITTLE_CPU_UNKNOWN_TOPOLOGY
  return levels.holds(facts[c[1]], c[2], c[3]) and c or nil
end

local function strongest(rule, by_name)
  local level = 0
  for _, name in ipairs(rule.signals) do level = math.max(level, levels.LEVEL[by_name[name].level]) end
  return level
end

local function judge(rule, facts, by_name, process_id)
  if not all_observed(rule.signals, by_name) or any_observed(rule.unless, by_name) then return nil end
  local supporting = {}
  local cpu = rule.cpu and cpu_condition(rule, facts)
  if rule.cpu and not cpu then return nil end
  for _, name in ipairs(rule.signals) do
    for _, e in ipairs(by_name[name].evidence) do supporting[#supporting + 1] = e end
  end
  if cpu then supporting[#supporting + 1] = as_evidence(facts, cpu) end
  local confidence, more = weigh(rule, facts)
  if cpu == LITTLE_CPU_UNKNOWN_TOPOLOGY then confidence = "low" end
  table.move(more, 1, #more, #supporting + 1, supporting)
  local contradicting = {}
  for _, c in ipairs(rule.contradicts or {}) do
    if levels.holds(facts[c[1]], c[2], c[3]) then contradicting[#contradicting + 1] = as_evidence(facts, c) end
  end
  local arguments = { processId = process_id }
  for k, v in pairs(rule.next[2] or {}) do arguments[k] = v end
  return setmetatable({
    name = rule.name, summary = rule.summary, confidence = confidence, supportingEvidence = json.array(supporting),
    contradictingEvidence = json.array(contradicting), nextStep = hints.new(rule.next[1], rule.next[3], arguments),
  }, ORDER), strongest(rule, by_name)
end

--- Facts that only the rules here need.
local function derive(facts, is_growth)
  local f = setmetatable({}, { __index = facts })
  f.growth_metrics = (is_growth(facts.heap) and 1 or 0) + (is_growth(facts.working_set) and 1 or 0)
  f.heap_growth_mb = facts.heap and facts.heap.deltaMb
  f.heap_falls = facts.heap and facts.heap.falls
  return f
end

--- TriageHypothesis rows: by confidence, then by the strongest supporting signal, then in the order of the table.
---@param facts TriageFacts
---@param by_name table<string, table>   observed signals
---@param is_growth fun(trend: table?): boolean
---@param process_id integer?
---@return table[]
function M.weigh(facts, by_name, is_growth, process_id)
  local derived, ranked = derive(facts, is_growth), {}
  for i, rule in ipairs(M.RULES) do
    local hypothesis, level = judge(rule, derived, by_name, process_id)
    if hypothesis then ranked[#ranked + 1] = { hypothesis, levels.CONFIDENCE[hypothesis.confidence], level, i } end
  end
  table.sort(ranked, function(a, b)
    for k = 2, 3 do
      if a[k] ~= b[k] then return a[k] > b[k] end
    end
    return a[4] < b[4]
  end)
  local list = {}
  for i, r in ipairs(ranked) do list[i] = r[1] end
  return list
end

return M
