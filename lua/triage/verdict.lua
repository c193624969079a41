-- SPDX-License-Identifier: MIT
-- The one-word results: the assessment of contract v2, and the older verdict and severity that existing clients still read.
local levels = require("triage.levels")

local M = {}

-- What the severity is at least.
local FLOOR <const> = { degraded = "Degraded", critical = "Critical" }

-- In this order: the first that matches is the verdict, the others are secondary. critical: from here on the severity is Critical.
M.VERDICTS = {
  { name = "cpu-bound", input = "cpu", from = 70, critical = 90 },
  { name = "gc-pressure", input = "gc_time", from = 15, critical = 30 },
  { name = "threadpool-starvation", input = "queue", from = 50, critical = 200 },
  { name = "lock-contention", input = "contentions", from = 10 },
}

local SEVERITY <const> = { Healthy = 0, Degraded = 1, Critical = 2 }

--- healthy | inconclusive | degraded | critical. Without a measurement nothing is healthy; with a signal neither.
---@param facts TriageFacts
---@param observed table[]
---@param hypotheses table[]
function M.assess(facts, observed, hypotheses)
  local worst = 0
  for _, signal in ipairs(observed) do worst = math.max(worst, levels.LEVEL[signal.level]) end
  if worst >= levels.LEVEL.critical then return "critical" end
  if worst >= levels.LEVEL.high then return "degraded" end
  for _, h in ipairs(hypotheses) do
    if levels.CONFIDENCE[h.confidence] >= levels.CONFIDENCE.medium and #h.contradictingEvidence == 0 then return "degraded" end
  end
  if worst > 0 or not facts.measured then return "inconclusive" end
  return "healthy"
end

--- verdict, secondaryVerdicts and severity.
---@param facts TriageFacts
---@param assessment string
---@return string verdict, string[] secondary, string severity
function M.project(facts, assessment)
  local matched, severity = {}, FLOOR[assessment] or "Healthy"
  for _, v in ipairs(M.VERDICTS) do
    local value = facts[v.input]
    if value and value >= v.from then
      matched[#matched + 1] = v.name
      local own = v.critical and value >= v.critical and "Critical" or "Degraded"
      if SEVERITY[own] > SEVERITY[severity] then severity = own end
    end
  end
  if #matched == 0 then return assessment == "healthy" and "healthy" or "inconclusive", {}, severity end
  return matched[1], { table.unpack(matched, 2) }, severity
end

return M
