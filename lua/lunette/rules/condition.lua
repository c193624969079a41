-- SPDX-License-Identifier: MIT
-- Conditions of rules: an input and what it is compared with. { input = "cpu", at_least = 70 }, { field = "status", equals = "partial" },
-- { signal = "gc.time" }, { any = { …, … } }. Compiled once; a condition over something that was not measured does not hold.
local input = require("lunette.rules.input")
local text = require("lunette.text")
local words = require("lunette.rules.words")

local M = {}

---@class RuleCondition
---@field slot integer?        of its input
---@field comparison string?
---@field threshold any
---@field name string          what its evidence is called
---@field unit string?
---@field rationale string?
---@field unknown RuleCondition?   judged in its place while its input was not measured
---@field confidence string?   what the hypothesis has at most when it is judged by this one
---@field any RuleCondition[]?
---@field signal string?       holds when this signal is there
---@field negate boolean?

local function fail(...) error((...):format(select(2, ...)), 0) end

local function bound_of(spec)
  local found
  for field, comparison in pairs(words.BOUNDS) do
    if spec[field] ~= nil then
      if found then fail("a condition compares with one thing; this one has both %s and %s", found.field, field) end
      found = { field = field, comparison = comparison, threshold = spec[field] }
      if type(found.threshold) ~= "number" then fail("'%s' must be a number, not %s", field, text.quote(found.threshold)) end
    end
  end
  if spec.measured then found = { comparison = "measured", threshold = true } end
  if spec.equals ~= nil then found = { comparison = "==", threshold = spec.equals } end
  if spec.is_not ~= nil then found = { comparison = "~=", threshold = spec.is_not } end
  return found
end

--- Compiles one condition. Throws a text that says what is wrong.
---@param spec table
---@param context { set: table, handle: string?, what: string }
---@return RuleCondition
function M.compile(spec, context)
  if type(spec) ~= "table" then fail("a condition is a table such as { input = \"cpu\", at_least = 70 }, not %s", text.quote(spec)) end
  if spec.any then
    local list = {}
    for i, part in ipairs(spec.any) do list[i] = M.compile(part, context) end
    return { any = list, name = "any" }
  end
  if spec.signal and context.observing then
    fail("'signal' cannot be a condition of what a rule looks at: signals are there when all rules have looked. Use a hypothesis")
  end
  if spec.signal then return { signal = spec.signal, negate = spec.absent == true, name = spec.signal } end
  local bound = bound_of(spec)
  if not bound then
    fail("a condition needs one of at_least, above, below, at_most, equals, is_not, measured to judge %s by",
      text.quote(type(spec.input) == "string" and spec.input or input.name_of(spec.input or spec)))
  end
  local of = spec.input or spec
  return {
    slot = input.compile(of, context), comparison = bound.comparison, threshold = bound.threshold, name = spec.name or input.name_of(of),
    unit = spec.unit, rationale = spec.rationale, confidence = spec.confidence,
    unknown = spec.unknown and M.compile(spec.unknown, context) or nil,
  }
end

--- Compiles a list of conditions; nil for none.
---@return RuleCondition[]?
function M.compile_all(list, context)
  if not list then return nil end
  local compiled = {}
  for i, spec in ipairs(list) do compiled[i] = M.compile(spec, context) end
  return compiled
end

--- Whether a condition holds; its value; and the condition that was judged (its `unknown` when it could not be).
---@param c RuleCondition
---@param window RuleWindow
---@return boolean holds, any value, RuleCondition judged
function M.holds(c, window)
  if c.any then
    for _, part in ipairs(c.any) do
      local holds, value, judged = M.holds(part, window)
      if holds then return true, value, judged end
    end
    return false, nil, c
  end
  if c.signal then return (window.fired[c.signal] ~= nil) ~= c.negate, nil, c end
  local value = window:value(c.slot)
  if value == nil then
    if c.unknown then return M.holds(c.unknown, window) end
    return c.comparison == "~=", nil, c
  end
  if c.comparison == "measured" then return true, value, c end
  if c.comparison == "==" then return value == c.threshold, value, c end
  if c.comparison == "~=" then return value ~= c.threshold, value, c end
  if type(value) ~= "number" then return false, value, c end
  return words.COMPARE[c.comparison](value, c.threshold), value, c
end

--- Whether all conditions hold.
---@param list RuleCondition[]?
function M.all(list, window)
  for i = 1, list and #list or 0 do
    if not M.holds(list[i], window) then return false end
  end
  return true
end

--- A condition and its value as evidence. nil when it is none: evidence is a number compared with a number, so words, flags, and that a
--- value is there at all, support a hypothesis without being told.
---@return table?
function M.evidence(c, value)
  if type(value) ~= "number" or type(c.threshold) ~= "number" then return nil end
  local rationale = c.rationale or ("It stands on this condition: %s %s %s."):format(c.name, c.comparison, words.plain(c.threshold))
  return words.evidence(c.name, value, c.comparison, c.threshold, c.unit, rationale)
end

return M
