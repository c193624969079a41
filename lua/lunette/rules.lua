-- SPDX-License-Identifier: MIT
-- rules: judges a window of captures by a compiled set of rules: observed signals, hypotheses, indicators, assessment and verdict.
-- No threshold is here: all are in lua/rules/ and in the rules/ of a site.
local compile = require("lunette.rules.compile")
local condition = require("lunette.rules.condition")
local input = require("lunette.rules.input")
local json = require("lunette.json")
local numbers = require("lunette.numbers")
local words = require("lunette.rules.words")

local M = {}

M.compile, M.window, M.hint, M.plain = compile.compile, input.window, compile.hint, words.plain

local SIGNAL_ORDER <const> = { __order = { "name", "level", "summary", "evidence" } }
local HYPOTHESIS_ORDER <const> = {
  __order = { "name", "summary", "confidence", "supportingEvidence", "contradictingEvidence", "nextStep" } }
local INDICATOR_ORDER <const> = { __order = { "name", "value", "unit", "score", "level" } }

--- The highest level whose threshold a value meets; nil below all.
---@return table? step   { at, level, rank }
function M.step(rule, value)
  local compare, steps, found = rule.compare, rule.steps, nil
  for i = 1, #steps do
    if not compare(value, steps[i].at) then return found end
    found = steps[i]
  end
  return found
end

--- Whether a change from first to last is material.
---@param change table    { percent, amount, unit, direction }
---@param trend table?
function M.is_material(change, trend)
  if not trend then return false end
  local delta = change.unit == "MB" and trend.deltaMb or trend.delta
  if change.direction == "down" then delta = -delta elseif change.direction == "either" then delta = math.abs(delta) end
  if change.amount and delta < change.amount then return false end
  if not change.percent then return delta > 0 end
  local relative = trend.relativeChange
  if not relative then return false end
  if change.direction == "down" then relative = -relative elseif change.direction == "either" then relative = math.abs(relative) end
  return relative * 100 >= change.percent
end

local function change_evidence(rule, metric, trend, evidence)
  local change, percent = rule.change, trend.relativeChange and trend.relativeChange * 100
  local sign, comparison = 1, ">="
  if (trend.delta < 0) and change.direction ~= "up" then sign, comparison = -1, "<=" end
  if change.percent and percent then
    evidence[#evidence + 1] = words.evidence(metric.name, percent, comparison, sign * change.percent, "%", rule.rationale)
  end
  if change.amount then
    local delta = change.unit == "MB" and trend.deltaMb or trend.delta
    evidence[#evidence + 1] = words.evidence(metric.name, delta, comparison, sign * change.amount, change.unit, rule.rationale)
  end
end

local function changed(rule, window)
  local evidence, said, fired = {}, {}, {}
  for _, metric in ipairs(rule.change.metrics) do
    local trend = window:value(metric.slot)
    if M.is_material(rule.change, trend) then
      local delta = rule.change.unit == "MB" and trend.deltaMb or trend.delta
      said[#said + 1] = ("%s by %s %s%s"):format(metric.name, words.plain(delta), rule.change.unit,
        trend.relativeChange and (" (%d %%)"):format(math.floor(trend.relativeChange * 100 + 0.5)) or "")
      fired[metric.key] = true
      change_evidence(rule, metric, trend, evidence)
    end
  end
  if #said == 0 or not condition.all(rule.when, window) then return nil end
  return {
    name = rule.name, level = rule.level, evidence = evidence,
    summary = words.fill(rule.summary, { changes = table.concat(said, ", "), level = rule.level }),
  }, fired
end

local function crossed(rule, window)
  local value = window:value(rule.slot)
  local step = type(value) == "number" and M.step(rule, value)
  if not step or not condition.all(rule.when, window) then return nil end
  local evidence = { words.evidence(rule.evidence, value, rule.comparison, step.at, rule.unit, rule.rationale) }
  for _, c in ipairs(rule.when or {}) do
    local _, seen, judged = condition.holds(c, window)
    if judged.rationale then evidence[#evidence + 1] = condition.evidence(judged, seen) end
  end
  return {
    name = rule.name, level = step.level, evidence = evidence,
    summary = words.fill(rule.summary, { value = value, level = step.level, threshold = step.at, unit = rule.unit }),
  }, { value = true }
end

--- Observed signals, the highest level first, then in the order of the rules; window.fired knows them by name.
---@return table[] TriageObservedSignal rows
function M.observe(set, window)
  local list = {}
  for rank, rule in ipairs(set.rules) do
    if rule.fires then
      local signal, fired = (rule.change and changed or crossed)(rule, window)
      if signal then
        list[#list + 1] = { signal = setmetatable(signal, SIGNAL_ORDER), level = words.LEVEL[signal.level], rank = rank }
        fired.signal, fired.rule = signal, rule
        window.fired[rule.name] = fired
      end
    end
  end
  table.sort(list, function(a, b)
    if a.level ~= b.level then return a.level > b.level end
    return a.rank < b.rank
  end)
  for i, item in ipairs(list) do list[i] = item.signal end
  return list
end

local function there(names, window, all)
  for _, name in ipairs(names) do
    if (window.fired[name] ~= nil) ~= all then return not all end
  end
  return all
end

local function lower(a, b) return words.CONFIDENCE[b] < words.CONFIDENCE[a] and b or a end

-- All required conditions: their evidence, and the confidence that they leave; nil when one does not hold.
local function required(h, window, evidence)
  local cap = "high"
  for _, c in ipairs(h.requires) do
    local holds, value, judged = condition.holds(c, window)
    if not holds then return nil end
    if judged.slot then evidence[#evidence + 1] = condition.evidence(judged, value) end
    if judged.confidence then cap = lower(cap, judged.confidence) end
  end
  return cap
end

-- The confidence, and the evidence that raised it: all of its conditions, or none.
local function raised(h, window, evidence)
  local stronger = h.stronger
  if not stronger then return h.confidence end
  local more = {}
  for _, c in ipairs(stronger.when) do
    local holds, value, judged = condition.holds(c, window)
    if not holds then return h.confidence end
    if judged.slot then more[#more + 1] = condition.evidence(judged, value) end
  end
  table.move(more, 1, #more, #evidence + 1, evidence)
  return stronger.confidence
end

local function judge(h, window, process_id)
  if not there(h.signals, window, true) or there(h.unless, window, false) then return nil end
  local supporting, contradicting, level = {}, {}, 0
  for _, name in ipairs(h.signals) do
    local signal = window.fired[name].signal
    table.move(signal.evidence, 1, #signal.evidence, #supporting + 1, supporting)
    level = math.max(level, words.LEVEL[signal.level])
  end
  local cap = required(h, window, supporting)
  if not cap then return nil end
  local confidence = lower(raised(h, window, supporting), cap)
  for _, c in ipairs(h.contradicts) do
    local holds, value, judged = condition.holds(c, window)
    if holds and judged.slot then contradicting[#contradicting + 1] = condition.evidence(judged, value) end
  end
  return setmetatable({
    name = h.name, summary = h.summary, confidence = confidence, supportingEvidence = json.array(supporting),
    contradictingEvidence = json.array(contradicting), nextStep = M.hint(h.next, process_id),
  }, HYPOTHESIS_ORDER), level
end

M.judge_hypothesis = judge

-- there(list, window, false) asks whether any is there: the loop returns true at the first.

--- TriageHypothesis rows: by confidence, then by the strongest supporting signal, then in the order of the rules.
---@param process_id integer?   for the next steps
---@return table[]
function M.weigh(set, window, process_id)
  local ranked = {}
  for i, h in ipairs(set.hypotheses) do
    local row, level = judge(h, window, process_id)
    if row then ranked[#ranked + 1] = { row, words.CONFIDENCE[row.confidence], level, i } end
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

--- Score and level of a value by the bands of an indicator.
---@return number score, string level
function M.score(indicator, x)
  local from = indicator.from
  local elevated, high, critical = from[1], from[2], from[3]
  if x >= critical then return math.min(100, 80 + (x - critical) / indicator.span * 20), "critical" end
  if x >= high then return 50 + (x - high) / (critical - high) * 30, "high" end
  if x >= elevated then return 20 + (x - elevated) / (high - elevated) * 30, "elevated" end
  return indicator.quiet and 0 or math.max(0, x / elevated * 20), "normal"
end

-- Growth is above normal only when it is material.
local function growth_score(indicator, trend)
  local percent = trend.relativeChange * 100
  local elevated, high = table.unpack(indicator.from)
  if not M.is_material(indicator.change, trend) then return math.max(0, math.min(19, percent / elevated * 20)), "normal" end
  if percent >= high then return math.min(79, 50 + (percent - high) / high * 29), "high" end
  return 20 + (percent - elevated) / (high - elevated) * 30, "elevated"
end

-- The highest scores that were seen, at most `max` of them; of equal ones the first stays in front.
local function top_of(max)
  local top = {}
  local function add(score, level, name, value, unit)
    score = math.floor(score)
    if #top == max and score <= top[max].score then return end
    local at = #top + 1
    while at > 1 and top[at - 1].score < score do at = at - 1 end
    table.insert(top, at, { name = name, value = value, unit = unit, score = score, level = level })
    top[max + 1] = nil
  end
  return top, add
end

local function add_growth(indicator, window, add)
  for _, metric in ipairs(indicator.change.metrics) do
    local trend = window:value(metric.slot)
    if trend and trend.relativeChange then
      local score, level = growth_score(indicator, trend)
      add(score, level, metric.name .. "-growth", trend.relativeChange * 100, "%")
    end
  end
end

local function add_value(indicator, window, add)
  local value = window:value(indicator.slot)
  if type(value) ~= "number" or (indicator.above_zero and value <= 0) then return end
  value = value * (indicator.scale or 1)
  local score, level = M.score(indicator, value)
  add(score, level, indicator.name, value, indicator.unit)
end

--- TriageIndicator rows, highest score first.
---@param max integer
function M.rank(set, window, max)
  local top, add = top_of(max)
  for _, indicator in ipairs(set.indicators) do
    if indicator.change then add_growth(indicator, window, add) else add_value(indicator, window, add) end
  end
  for _, row in ipairs(top) do
    row.value = numbers.round(row.value, 2)
    setmetatable(row, INDICATOR_ORDER)
  end
  return json.array(top)
end

local function measured(window, names)
  for _, name in ipairs(names) do
    if window:fact(name) ~= nil then return true end
  end
  return false
end

local function worst_of(observed)
  local worst = 0
  for _, signal in ipairs(observed) do worst = math.max(worst, words.LEVEL[signal.level]) end
  return worst
end

-- A hypothesis of that confidence or more, with nothing against it.
local function stands(hypotheses, confidence)
  for _, h in ipairs(hypotheses) do
    if words.CONFIDENCE[h.confidence] >= words.CONFIDENCE[confidence] and #h.contradictingEvidence == 0 then return true end
  end
  return false
end

--- The row of the assessment that holds: the first from above.
---@return table { word, severity?, verdict? }
function M.assess(set, window, observed, hypotheses)
  local worst = worst_of(observed)
  for _, row in ipairs(set.assessment or {}) do
    local holds = true
    if row.signal then holds = worst >= words.LEVEL[row.signal] end
    if row.hypothesis then holds = holds and stands(hypotheses, row.hypothesis) end
    if row.unmeasured then holds = holds and not measured(window, row.unmeasured) end
    if holds then return row end
  end
  return { word = "inconclusive" }
end

--- verdict, secondaryVerdicts and severity: the words of an older contract.
---@param row table   of the assessment
---@return string verdict, string[] secondary, string severity
function M.project(set, window, row)
  local names, severity = {}, row.severity or "Healthy"
  for _, verdict in ipairs(set.verdicts) do
    local fired = window.fired[verdict.rule.name]
    if fired then
      names[#names + 1] = verdict.name
      local own = fired.signal.level == "critical" and "Critical" or "Degraded"
      if verdict.worst and words.SEVERITY[own] > words.SEVERITY[verdict.worst] then own = verdict.worst end
      if words.SEVERITY[own] > words.SEVERITY[severity] then severity = own end
    end
  end
  if #names == 0 then return row.verdict or "inconclusive", {}, severity end
  return names[1], { table.unpack(names, 2) }, severity
end

return M
