-- SPDX-License-Identifier: MIT
-- The words of rules: levels, confidences and comparisons with their order, numbers as people read them, and sentences with gaps.
local numbers = require("lunette.numbers")

local M = {}

M.LEVEL = { normal = 0, elevated = 1, high = 2, critical = 3 }
M.LEVELS = { "elevated", "high", "critical" } -- those that a rule can give
M.CONFIDENCE = { low = 1, medium = 2, high = 3 }
M.SEVERITY = { Healthy = 0, Degraded = 1, Critical = 2 }

M.COMPARE = {
  [">="] = function(a, b) return a >= b end, [">"] = function(a, b) return a > b end,
  ["<"] = function(a, b) return a < b end, ["<="] = function(a, b) return a <= b end,
}
-- The fields of a condition, and what they are compared by.
M.BOUNDS = { at_least = ">=", above = ">", below = "<", at_most = "<=" }

local EVIDENCE_ORDER <const> = { __order = { "name", "value", "comparison", "threshold", "unit", "rationale" } }

--- TriageSignalEvidence: one number with what it was compared with, and why. A number without a unit has an empty one.
function M.evidence(name, value, comparison, threshold, unit, rationale)
  return setmetatable({
    name = name, value = numbers.shown(value), comparison = comparison, threshold = threshold, unit = unit or "", rationale = rationale,
  }, EVIDENCE_ORDER)
end

--- A number as people read it.
---@param value any
---@return string
function M.plain(value)
  if type(value) ~= "number" then return tostring(value) end
  if value ~= value or value == math.huge or value == -math.huge then return tostring(value) end
  if value == math.floor(value) and math.abs(value) < 2 ^ 53 then return ("%d"):format(value) end
  return ("%.2f"):format(value)
end

local function said(value, format)
  if value == nil then return "?" end
  if format and type(value) == "number" then return format:format(value) end
  return M.plain(value)
end

--- Fills the gaps of a sentence: {name}, or {name:%.1f} with a format of its own. A gap without a value becomes "?".
---@param template string
---@param values table<string, any>
---@return string
function M.fill(template, values)
  if not template:find("{", 1, true) then return template end
  return (template:gsub("{([%a_]+):?(%%?[%d%.]*[dfg]?)}", function(name, format)
    return said(values[name], format ~= "" and format or nil)
  end))
end

--- The names in the gaps of a sentence, in their order.
---@param template string
---@return string[]
function M.gaps(template)
  local names = {}
  for name in template:gmatch("{([%a_]+):?[^}]*}") do names[#names + 1] = name end
  return names
end

return M
