-- SPDX-License-Identifier: MIT
-- Explains a judged window: which rules fired, which nearly did and by how much they missed, what was not measured, which hypotheses were
-- weighed and why they stand or not; and where each rule comes from.
local condition = require("lunette.rules.condition")
local json = require("lunette.json")
local rules = require("lunette.rules")
local words = require("lunette.rules.words")

local M = {}

M.NEAR = 0.25 -- of the threshold: rules that missed it by no more are told as near

local RULE_ORDER <const> = { __order = {
  "name", "state", "level", "value", "unit", "comparison", "threshold", "nextLevel", "nextThreshold", "distance", "changes", "heldBackBy",
  "unmeasured", "summary", "rationale", "file", "layer" } }
local HYPOTHESIS_ORDER <const> = { __order = {
  "name", "state", "confidence", "summary", "supports", "against", "missing", "file", "layer" } }

-- How far a value is from a threshold, as a share of it; 0 when it is met.
local function distance(value, comparison, threshold)
  if words.COMPARE[comparison](value, threshold) then return 0 end
  local size = math.max(math.abs(threshold), 1e-9)
  return math.abs(threshold - value) / size
end

-- The lowest step that the value has not met, else nil.
local function next_step(rule, value)
  local compare = words.COMPARE[rule.comparison]
  for _, step in ipairs(rule.steps) do
    if not compare(value, step.at) then return step end
  end
  return nil
end

local function name_of(c, window)
  if c.signal then return ("the signal %s%s"):format(c.signal, c.negate and " must not be there" or "") end
  return c.slot and window.set.described[c.slot] or c.name
end

--- A condition in words, with what was measured.
local function spoken(c, window)
  local _, value, judged = condition.holds(c, window)
  if judged.signal or judged.any then return name_of(judged, window) end
  local unit = judged.unit and " " .. judged.unit or ""
  if value == nil then return ("%s was not measured (%s %s%s)"):format(name_of(judged, window), judged.comparison,
    words.plain(judged.threshold), unit) end
  return ("%s is %s%s, not %s %s"):format(judged.name, words.plain(value), unit, judged.comparison, words.plain(judged.threshold))
end

local function held_back(rule, window)
  local list = json.array({})
  for _, c in ipairs(rule.when or {}) do
    if not condition.holds(c, window) then list[#list + 1] = spoken(c, window) end
  end
  return #list > 0 and list or nil
end

local function change_row(rule, window, row)
  local change = rule.change
  local best, measured = nil, false
  row.changes = json.array({})
  for _, metric in ipairs(change.metrics) do
    local trend = window:value(metric.slot)
    if type(trend) == "table" then
      measured = true
      local delta = change.unit == "MB" and trend.deltaMb or trend.delta
      local percent = trend.relativeChange and trend.relativeChange * 100
      local sign = change.direction == "down" and -1 or (change.direction == "either" and trend.delta < 0) and -1 or 1
      local missed = 0
      if change.percent then missed = math.max(missed, percent and distance(sign * percent, ">=", change.percent) or 1) end
      if change.amount then missed = math.max(missed, distance(sign * delta, ">=", change.amount)) end
      row.changes[#row.changes + 1] = { name = metric.name, percent = percent, amount = delta, unit = change.unit, distance = missed }
      if not best or missed < best then best = missed end
    end
  end
  row.distance, row.threshold, row.unit, row.comparison = best, change.percent or change.amount, change.percent and "%" or change.unit, ">="
  if not measured then row.unmeasured = window.set.described[change.metrics[1].slot] end
end

local function level_row(rule, window, row)
  local value = window:value(rule.slot)
  row.comparison, row.unit = rule.comparison, rule.unit
  if type(value) ~= "number" then
    row.unmeasured = window.set.described[rule.slot]
    row.threshold = rule.steps[1].at
    return
  end
  row.value = value
  local step, missed = rules.step(rule, value), next_step(rule, value)
  row.threshold = step and step.at or rule.steps[1].at
  if missed then
    row.nextLevel, row.nextThreshold, row.distance = missed.level, missed.at, distance(value, rule.comparison, missed.at)
    row.threshold = step and step.at or missed.at
  end
end

local function rule_row(rule, window, near)
  local fired = window.fired[rule.name]
  local row = setmetatable({
    name = rule.name, file = rule.from.file, layer = rule.layer or "product", rationale = rule.rationale,
    level = fired and fired.signal.level,
    summary = fired and fired.signal.summary,
  }, RULE_ORDER)
  if rule.change then change_row(rule, window, row) else level_row(rule, window, row) end
  if fired then
    row.state = "fired"
    row.distance = nil
  elseif row.unmeasured then
    row.state = "not-measured"
  else
    row.heldBackBy = held_back(rule, window)
    local met = row.distance == 0 or row.distance == nil or (not rule.change and rules.step(rule, row.value) ~= nil)
    row.state = met and row.heldBackBy and "held-back" or row.distance and row.distance <= near and "near" or "quiet"
    if row.state ~= "held-back" then row.heldBackBy = nil end
  end
  return row
end

local RANK <const> = { fired = 1, ["held-back"] = 2, near = 3, quiet = 4, ["not-measured"] = 5 }

local function by_state(a, b)
  if a.row.state ~= b.row.state then return RANK[a.row.state] < RANK[b.row.state] end
  local x, y = words.LEVEL[a.row.level or "normal"], words.LEVEL[b.row.level or "normal"]
  if x ~= y then return x > y end
  if (a.row.distance or 0) ~= (b.row.distance or 0) then return (a.row.distance or 0) < (b.row.distance or 0) end
  return a.rank < b.rank
end

local function rule_rows(set, window, near)
  local list = json.array({})
  for rank, rule in ipairs(set.rules) do
    if rule.fires then list[#list + 1] = { row = rule_row(rule, window, near), rank = rank } end
  end
  table.sort(list, by_state)
  for i, item in ipairs(list) do list[i] = item.row end
  return list
end

-- What keeps a hypothesis from standing.
local function missing_of(h, window, by_name)
  local list = json.array({})
  for _, name in ipairs(h.signals) do
    if not window.fired[name] then
      local rule = by_name[name]
      local why = rule and rule.value and ("%s of %s%s"):format(words.plain(rule.value), words.plain(rule.threshold),
        rule.unit and " " .. rule.unit or "") or rule and rule.unmeasured and "not measured" or "not observed"
      list[#list + 1] = ("the signal %s (%s)"):format(name, why)
    end
  end
  for _, name in ipairs(h.unless) do
    if window.fired[name] then list[#list + 1] = ("the signal %s is there, which excludes it"):format(name) end
  end
  for _, c in ipairs(h.requires) do
    if not condition.holds(c, window) then list[#list + 1] = spoken(c, window) end
  end
  return list
end

local function signals_there(h, window)
  local n = 0
  for _, name in ipairs(h.signals) do n = n + (window.fired[name] and 1 or 0) end
  return n
end

local function hypothesis_row(h, window, by_name)
  local stands = rules.judge_hypothesis(h, window)
  local row = setmetatable({
    name = h.name, summary = h.summary, file = h.rule.from.file, layer = h.rule.layer or "product",
    confidence = stands and stands.confidence,
    state = stands and "stands" or signals_there(h, window) > 0 and "refuted" or "not-raised",
  }, HYPOTHESIS_ORDER)
  if stands then
    row.supports, row.against = stands.supportingEvidence, stands.contradictingEvidence
  else
    row.missing = missing_of(h, window, by_name)
  end
  return row
end

local STATES <const> = { stands = 1, refuted = 2, ["not-raised"] = 3 }

local function hypothesis_rows(set, window, rows)
  local by_name, list = {}, json.array({})
  for _, row in ipairs(rows) do by_name[row.name] = row end
  for rank, h in ipairs(set.hypotheses) do list[rank] = { row = hypothesis_row(h, window, by_name), rank = rank } end
  table.sort(list, function(a, b)
    if a.row.state ~= b.row.state then return STATES[a.row.state] < STATES[b.row.state] end
    local x, y = words.CONFIDENCE[a.row.confidence] or 0, words.CONFIDENCE[b.row.confidence] or 0
    if x ~= y then return x > y end
    return a.rank < b.rank
  end)
  for i, item in ipairs(list) do list[i] = item.row end
  return list
end

local function listed(list, fields)
  local rows = json.array({})
  for i, item in ipairs(list) do
    rows[i] = {}
    for _, f in ipairs(fields) do rows[i][f] = item[f] end
  end
  return rows
end

--- Explains a window that was judged (observed and weighed).
---@param set table            compiled rules
---@param window RuleWindow
---@param options { near: number? }?
---@return { rules: table[], hypotheses: table[], problems: table[], faults: table[] }
function M.of(set, window, options)
  local rows = rule_rows(set, window, options and options.near or M.NEAR)
  return {
    rules = rows, hypotheses = hypothesis_rows(set, window, rows), problems = listed(set.problems, { "file", "name", "message" }),
    faults = listed(window.faults, { "what", "message" }),
  }
end

return M
