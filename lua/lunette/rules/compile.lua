-- SPDX-License-Identifier: MIT
-- Compiles rule files into a set that a triage can be judged by: inputs shared, thresholds sorted, names checked against each other.
-- A rule that is wrong is left out and told; the others serve.
local condition = require("lunette.rules.condition")
local hints = require("lunette.hints")
local input = require("lunette.rules.input")
local text = require("lunette.text")
local words = require("lunette.rules.words")

local M = {}

M.ORDER = 1000 -- of a rule that gives none: behind those of the product

---@class RuleFile
---@field name string     of the file, without its ending
---@field value table     what it declares
---@field file string?    path
---@field layer string?   folder that it came from

local function fail(...) error((...):format(select(2, ...)), 0) end

local function check_gaps(template, allowed, what)
  for _, gap in ipairs(words.gaps(template or "")) do
    if not allowed[gap] then
      fail("%s has a gap {%s} that nothing fills.%s", what, gap, text.did_you_mean(gap, text.keys(allowed)))
    end
  end
end

-- { elevated = 50, critical = 200 } -> in the order in which a growing value meets them (a falling one for "<")
local function levels_of(levels, comparison)
  if not words.COMPARE[comparison] then fail("'comparison' is one of >=, >, <, <=, not %s", text.quote(comparison)) end
  local steps = {}
  for level, at in pairs(levels) do
    if not words.LEVEL[level] or level == "normal" then
      fail("there is no level %s; levels are %s.%s", text.quote(level), text.join(words.LEVELS),
        text.did_you_mean(tostring(level), words.LEVELS))
    end
    if type(at) ~= "number" then fail("the threshold of level %s must be a number, not %s", level, text.quote(at)) end
    steps[#steps + 1] = { at = at, level = level, rank = words.LEVEL[level] }
  end
  if #steps == 0 then fail("'levels' is empty: give at least one, such as { elevated = 10 }") end
  table.sort(steps, function(a, b) return a.rank < b.rank end)
  local falling = comparison:sub(1, 1) == "<"
  for i = 2, #steps do
    local a, b = steps[i - 1], steps[i]
    if (falling and b.at >= a.at) or (not falling and b.at <= a.at) then
      fail("the level %s can never be the one: it begins at %s, and %s at %s", a.level, words.plain(a.at), b.level, words.plain(b.at))
    end
  end
  return steps
end

--- The thresholds of a rule in the order of their levels; throws a text for levels that are none or can never be reached.
M.levels = levels_of

local function step_of(step, what)
  if not step then return nil end
  if type(step.tool) ~= "string" or type(step.reason) ~= "string" then fail("%s needs 'tool' and 'reason'", what) end
  return step
end

--- A next step as a hint.
---@param step { tool: string, reason: string, arguments: table? }
---@param process_id integer?
function M.hint(step, process_id)
  local arguments = { processId = process_id }
  for k, v in pairs(step.arguments or {}) do arguments[k] = v end
  return hints.new(step.tool, step.reason, arguments, step.priority)
end

-- The trend of an input, for a change over the window.
local function trend_slot(spec, context)
  if type(spec) == "string" then
    local declared = context.set.facts[spec]
    if type(declared) == "table" and declared.counter and declared.stat ~= "trend" then
      fail("the fact %s is one number; a change needs stat = \"trend\"", text.quote(spec))
    end
    return input.compile(spec, context)
  end
  local copy = {}
  for k, v in pairs(spec) do copy[k] = v end
  copy.stat = copy.stat or "trend"
  if copy.stat ~= "trend" then fail("a change is measured from first to last: leave 'stat' out") end
  return input.compile(copy, context)
end

local DIRECTIONS <const> = { "up", "down", "either" }

local function change_of(rule, declared, context)
  local change = declared.change
  local list = declared.inputs or { declared.input }
  if #list == 0 then fail("'change' needs 'inputs': which metrics may change") end
  if type(change.percent) ~= "number" and type(change.amount) ~= "number" then fail("'change' needs 'percent', 'amount' or both") end
  local direction = change.direction or "up"
  if not text.nearest(direction, DIRECTIONS) then fail("'change.direction' is up, down or either, not %s", text.quote(direction)) end
  if not words.LEVEL[declared.level] then fail("a rule with 'change' needs 'level': %s", text.join(words.LEVELS, "or")) end
  rule.change = { percent = change.percent, amount = change.amount, unit = change.unit or "MB", direction = direction, metrics = {} }
  for i, spec in ipairs(list) do
    local of = type(spec) == "string" and context.set.facts[spec] or spec
    rule.change.metrics[i] = {
      slot = trend_slot(spec, context), key = type(spec) == "string" and spec or input.name_of(spec),
      name = declared.evidence and declared.evidence[i] or input.name_of(of),
    }
  end
  rule.level = declared.level
end

local BANDS <const> = { "elevated", "high", "critical" }

local function indicator_of(rule, declared, context)
  local of = declared.indicator
  if not of then return end
  local from = {}
  for i, band in ipairs(BANDS) do from[i] = of.from and of.from[band] end
  if not from[1] or not from[2] or (not from[3] and not rule.change) then
    fail("'indicator.from' needs elevated, high%s, as numbers", rule.change and "" or " and critical")
  end
  if not rule.change and type(of.span) ~= "number" then
    fail("'indicator.span' must be a number: how far beyond critical the score is 100")
  end
  if not rule.change and not (of.input or rule.slot) then fail("'indicator' needs an 'input'") end
  context.set.indicators[#context.set.indicators + 1] = {
    name = of.name or rule.name, unit = of.unit or rule.unit, from = from, span = of.span, quiet = of.quiet, above_zero = of.above_zero,
    slot = of.input and input.compile(of.input, context) or rule.slot, scale = of.scale, change = rule.change,
    order = of.order or rule.order, rule = rule,
  }
end

local function verdict_of(rule, declared, set)
  local of = declared.verdict
  if not of then return end
  if type(of) == "string" then of = { name = of } end
  if of.worst and not words.SEVERITY[of.worst] then fail("'verdict.worst' is Degraded or Critical, not %s", text.quote(of.worst)) end
  set.verdicts[#set.verdicts + 1] = { name = of.name, worst = of.worst, order = of.order or rule.order, rule = rule }
end

local function hypothesis_of(rule, h, context)
  if type(h.name) ~= "string" or type(h.summary) ~= "string" then fail("a hypothesis needs 'name' and 'summary'") end
  local what = "the hypothesis " .. h.name
  if not h.next then fail("%s needs 'next': the one step that tells more", what) end
  if not words.CONFIDENCE[h.confidence] then fail("%s needs 'confidence': low, medium or high", what) end
  local signals = h.signals or { rule.name }
  local stronger = h.stronger
  if stronger and not words.CONFIDENCE[stronger.confidence] then fail("'stronger' of %s needs 'confidence'", what) end
  context.set.hypotheses[#context.set.hypotheses + 1] = {
    name = h.name, summary = h.summary, confidence = h.confidence, signals = signals, unless = h.unless or {},
    requires = condition.compile_all(h.requires, context) or {}, contradicts = condition.compile_all(h.contradicts, context) or {},
    stronger = stronger and { confidence = stronger.confidence, when = condition.compile_all(stronger.when, context) or {} },
    next = step_of(h.next, "'next' of " .. what), order = h.order or rule.order, rule = rule,
  }
end

local SUMMARY_GAPS <const> = { value = true, level = true, threshold = true, unit = true }
local CHANGE_GAPS <const> = { changes = true, level = true }

--- What is wrong with the gaps of a rule's sentence, or nil.
---@param declared table
---@return string?
function M.gaps(declared)
  local ok, why = pcall(check_gaps, declared.summary, declared.change and CHANGE_GAPS or SUMMARY_GAPS, "'summary'")
  return not ok and why or nil
end

local function observation_of(rule, declared, context)
  if declared.change then
    change_of(rule, declared, context)
  elseif declared.input then
    rule.slot = input.compile(declared.input, context)
    rule.comparison = declared.comparison or ">="
    rule.compare = words.COMPARE[rule.comparison]
    rule.steps = declared.levels and levels_of(declared.levels, rule.comparison)
  elseif declared.levels then
    fail("'levels' without an 'input': what do they judge?")
  end
  rule.fires = rule.change ~= nil or rule.steps ~= nil
  if rule.fires and type(declared.summary) ~= "string" then fail("a rule that fires needs a 'summary'") end
  if rule.fires and type(declared.rationale) ~= "string" then fail("a rule that fires needs a 'rationale': why this threshold") end
  check_gaps(declared.summary, rule.change and CHANGE_GAPS or SUMMARY_GAPS, "'summary'")
  if rule.slot then
    local of = declared.input
    local spec = type(of) == "string" and context.set.facts[of] or of
    rule.evidence = declared.evidence or input.name_of(spec)
    rule.unit = declared.unit or spec.unit
  end
end

local function compile_one(set, file)
  local declared = file.value
  local name = declared.name or file.name
  local rule = {
    name = name, from = file, layer = file.layer, order = declared.order or M.ORDER, summary = declared.summary,
    rationale = declared.rationale, next = step_of(declared.next, "'next'"), what = "the rule " .. name,
  }
  local context = { set = set, what = rule.what, observing = true }
  observation_of(rule, declared, context)
  rule.when = condition.compile_all(declared.when, context)
  context.observing = nil
  indicator_of(rule, declared, context)
  verdict_of(rule, declared, set)
  for _, h in ipairs(declared.hypotheses or {}) do hypothesis_of(rule, h, context) end
  for _, row in ipairs(declared.assessment or {}) do
    for _, fact in ipairs(row.unmeasured or {}) do
      if set.facts[fact] == nil then fail("there is no fact %s.%s", text.quote(fact), text.did_you_mean(fact, text.keys(set.facts))) end
    end
  end
  if declared.numbers then set.numbers[name] = declared.numbers end
  if declared.assessment then
    if set.assessment then fail("there is an assessment already, in %s", tostring(set.assessment_from.file)) end
    set.assessment, set.assessment_from = declared.assessment, file
  end
  return rule
end

-- doubt: told, but the rule serves. unreachable: a hypothesis of it can never stand.
local function problem(set, file, message)
  local p = { name = file.name, file = file.file, layer = file.layer, message = message }
  set.problems[#set.problems + 1] = p
  return p
end

local LISTS <const> = { "indicators", "verdicts", "hypotheses" }

-- Compiles a rule; of one that is wrong nothing stays.
local function try(set, file)
  set.at = file
  local before = {}
  for _, list in ipairs(LISTS) do before[list] = #set[list] end
  local ok, rule = pcall(compile_one, set, file)
  if ok then return rule end
  if type(rule) ~= "string" then error(rule, 0) end -- a budget or a cancellation of the host
  for _, list in ipairs(LISTS) do
    for i = #set[list], before[list] + 1, -1 do set[list][i] = nil end
  end
  problem(set, file, rule)
  return nil
end

local function in_order(a, b)
  if a.order ~= b.order then return a.order < b.order end
  return a.name < b.name
end

-- Facts come first: any file may declare them, any other use them.
local function gather_facts(set, files)
  for _, file in ipairs(files) do
    for name, spec in pairs(file.value.facts or {}) do
      if set.facts[name] ~= nil then
        problem(set, file, ("the fact %q is declared in %s already"):format(name, tostring(set.fact_from[name].file)))
      else
        set.facts[name], set.fact_from[name] = spec, file
      end
    end
  end
  for _, name in ipairs(text.keys(set.facts)) do
    set.at = set.fact_from[name]
    local ok, why = pcall(input.compile, name, { set = set, what = "the fact " .. name })
    if not ok then
      if type(why) ~= "string" then error(why, 0) end
      problem(set, set.fact_from[name], ("the fact %q: %s"):format(name, why))
    end
  end
end

-- The signals that conditions look for.
local function looked_for(conditions, list)
  for _, c in ipairs(conditions or {}) do
    list[#list + 1] = c.signal
    looked_for(c.any, list)
    looked_for(c.unknown and { c.unknown }, list)
  end
  return list
end

-- A hypothesis over a signal that no rule gives can never stand, or means something else.
local function unreachable(set)
  local names = {}
  for _, rule in ipairs(set.rules) do
    if rule.fires then names[#names + 1] = rule.name end
  end
  local known = {}
  for _, name in ipairs(names) do known[name] = true end
  for _, h in ipairs(set.hypotheses) do
    local when = h.stronger and h.stronger.when
    for _, list in ipairs { h.signals, h.unless, looked_for(h.requires, {}), looked_for(h.contradicts, {}), looked_for(when, {}) } do
      for _, name in ipairs(list) do
        if not known[name] then
          problem(set, h.rule.from, ("the hypothesis %s looks for a signal %q that no rule gives.%s"):format(h.name, name,
            text.did_you_mean(name, names))).unreachable = true
        end
      end
    end
  end
end

--- Compiles all rules of a generation.
---@param files RuleFile[]
---@return table set   rules, hypotheses, indicators, verdicts in their order; asks: which providers, meters; problems
function M.compile(files)
  local set = {
    facts = {}, numbers = {}, fact_from = {}, fact_slots = {}, readers = {}, described = {}, by_key = {},
    rules = {}, hypotheses = {}, indicators = {}, verdicts = {},
    asks = { providers = {}, meters = {} }, handles = {}, problems = {},
  }
  function set.doubt(message) problem(set, set.at, message).doubt = true end
  gather_facts(set, files)
  local names = {}
  for _, file in ipairs(files) do
    local rule = try(set, file)
    if rule and rule.fires and names[rule.name] then
      problem(set, file, ("there is a rule %q already, in %s"):format(rule.name, tostring(names[rule.name].file)))
    elseif rule then
      names[rule.name] = file
      set.rules[#set.rules + 1] = rule
    end
  end
  table.sort(set.rules, in_order)
  for _, list in ipairs(LISTS) do table.sort(set[list], in_order) end
  unreachable(set)
  return set
end

return M
