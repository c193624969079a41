-- SPDX-License-Identifier: MIT
-- The order of levels and confidences, shared by the rules.
local M = {}

M.LEVEL = { normal = 0, elevated = 1, high = 2, critical = 3 }
M.CONFIDENCE = { low = 1, medium = 2, high = 3 }

local EVIDENCE_ORDER <const> = { __order = { "name", "value", "comparison", "threshold", "unit", "rationale" } }

--- TriageSignalEvidence: one number with what it was compared with, and why.
function M.evidence(name, value, comparison, threshold, unit, rationale)
  return setmetatable({
    name = name, value = value, comparison = comparison, threshold = threshold, unit = unit, rationale = rationale,
  }, EVIDENCE_ORDER)
end

local COMPARE <const> = {
  [">="] = function(a, b) return a >= b end, [">"] = function(a, b) return a > b end,
  ["<"] = function(a, b) return a < b end, ["<="] = function(a, b) return a <= b end,
}

--- Whether a value was measured and stands so to the threshold.
function M.holds(value, comparison, threshold) return value ~= nil and COMPARE[comparison](value, threshold) end

return M
