-- SPDX-License-Identifier: MIT
-- safety: the descriptor of a concrete call, and the acknowledgement that a high-risk call needs.
-- The acknowledgement is no token: it repeats operation, arguments, descriptor and children, so a changed request is a new question.
local json = require("lunette.json")

local M = {}

M.LEVELS = { "low", "moderate", "high", "critical" }
local RANK <const> = { low = 1, moderate = 2, high = 3, critical = 4 }
local IMPACTS <const> = { none = 1, low = 2, moderate = 3, high = 4 }
local EXPOSURES <const> = { none = 1, metadata = 2, content = 3, secrets = 4 }
local POLICY <const> = { low = "none", moderate = "none", high = "acknowledge", critical = "approve" }
local ORDER <const> = {
  __order = { "riskLevel", "targetImpact", "dataExposure", "sideEffects", "approvalPolicy", "reason", "mitigations" },
}

local DEFAULTS <const> = {
  low = { impact = "none", exposure = "metadata", reason = "Reads facts and counters; the target is not disturbed." },
  moderate = { impact = "low", exposure = "content", reason = "May answer content of the target, or make it work a little more." },
  high = { impact = "moderate", exposure = "content", reason = "Stops or burdens the target for a moment, or needs privilege." },
  critical = { impact = "high", exposure = "secrets", reason = "Writes the memory of the target, or changes what it runs." },
}

---@class Risk
---@field level "low"|"moderate"|"high"|"critical"
---@field target_impact? "none"|"low"|"moderate"|"high"
---@field data_exposure? "none"|"metadata"|"content"|"secrets"
---@field side_effects? string[]
---@field reason? string
---@field mitigations? string[]

--- The wire's SafetyDescriptor of a declared risk.
---@param risk string|Risk|nil
---@return table descriptor
function M.descriptor(risk)
  if risk == nil then risk = { level = "low" } end
  if type(risk) == "string" then risk = { level = risk } end
  local defaults = DEFAULTS[risk.level]
  if not defaults then error("risk: level is low, moderate, high or critical, not " .. tostring(risk.level), 2) end
  local impact, exposure = risk.target_impact or defaults.impact, risk.data_exposure or defaults.exposure
  if not IMPACTS[impact] then error("risk: target_impact is none, low, moderate or high, not " .. tostring(impact), 2) end
  if not EXPOSURES[exposure] then error("risk: data_exposure is none, metadata, content or secrets, not " .. tostring(exposure), 2) end
  return setmetatable({
    riskLevel = risk.level, targetImpact = impact, dataExposure = exposure,
    sideEffects = json.array({ table.unpack(risk.side_effects or {}) }),
    approvalPolicy = POLICY[risk.level],
    reason = risk.reason or defaults.reason,
    mitigations = json.array({ table.unpack(risk.mitigations or {}) }),
  }, ORDER)
end

--- The descriptor of a call that was refused before it did anything.
function M.refused()
  return M.descriptor({ level = "low", target_impact = "none", data_exposure = "none", reason = "Refused before anything ran." })
end

function M.rank(descriptor) return RANK[descriptor.riskLevel] end

local function union(into, list, seen)
  for _, word in ipairs(list) do
    if not seen[word] then
      seen[word] = true
      into[#into + 1] = word
    end
  end
end

--- The merged maximum of several descriptors: the highest of each word, all side effects and mitigations, the reason of the highest.
---@param list table[]
---@return table descriptor
function M.max(list)
  local top, impact, exposure = list[1], "none", "none"
  local effects, mitigations = json.array({}), json.array({})
  local seen_effects, seen_mitigations = {}, {}
  for _, d in ipairs(list) do
    if RANK[d.riskLevel] > RANK[top.riskLevel] then top = d end
    if IMPACTS[d.targetImpact] > IMPACTS[impact] then impact = d.targetImpact end
    if EXPOSURES[d.dataExposure] > EXPOSURES[exposure] then exposure = d.dataExposure end
    union(effects, d.sideEffects, seen_effects)
    union(mitigations, d.mitigations, seen_mitigations)
  end
  return setmetatable({
    riskLevel = top.riskLevel, targetImpact = impact, dataExposure = exposure, sideEffects = effects,
    approvalPolicy = top.approvalPolicy, reason = top.reason, mitigations = mitigations,
  }, ORDER)
end

--- What a moderate call says beside its answer.
function M.warnings(descriptor)
  local list = { descriptor.reason }
  for _, effect in ipairs(descriptor.sideEffects) do list[#list + 1] = "Side effect: " .. effect end
  return json.array(list)
end

--- What a client must copy back to run a high-risk call.
---@param operation string          tool, or tool/branch
---@param arguments table           concrete arguments, without the reserved member
---@param descriptor table
---@param children table[]?
function M.acknowledgement(operation, arguments, descriptor, children)
  return setmetatable({ operation = operation, arguments = arguments, descriptor = descriptor, children = children },
    { __order = { "operation", "arguments", "descriptor", "children" } })
end

-- A copy without metatables but for array-ness, with 5.0 as 5 and [] as {} (not every client keeps them apart): what went to a client
-- and came back is then the same text.
local function canonical(value, depth)
  if math.type(value) == "float" then return math.tointeger(value) or value end
  if type(value) ~= "table" or value == json.null then return value end
  if depth > 32 then return "[too deep]" end
  local copy = {}
  for k, v in pairs(value) do
    if v ~= json.null or json.is_array(value) then copy[k] = canonical(v, depth + 1) end
  end
  return json.is_array(value) and next(copy) ~= nil and json.array(copy) or copy
end

--- Whether what the client sent is exactly the acknowledgement of this call.
---@param sent any
---@param expected table
function M.matches(sent, expected)
  if type(sent) ~= "table" then return false end
  return json.encode(canonical(sent, 0)) == json.encode(canonical(expected, 0))
end

return M
