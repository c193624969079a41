-- SPDX-License-Identifier: MIT
-- The raw numbers of a triage on the wire. Their names, and how each is made, are in lua/rules/facts.lua.
local numbers = require("lunette.numbers")

local M = {}

local TREND_ORDER <const> = { __order = { "first", "last", "delta", "relativeChange", "deltaMb" } }

-- Fields of TriageEvidence and the facts behind them.
local NUMBERS <const> = {
  cpuUsage = "cpu", timeInGc = "gc_time_raw", threadPoolQueueLength = "queue", monitorLockContentionCount = "contentions",
  allocRate = "alloc_bytes", gen2GcCount = "gen2", gcHeapSize = "heap_mb", exceptionCount = "exceptions", requestDurationP95 = "p95_s",
  logicalProcessorCount = "processors", effectiveCoreUsage = "cores",
}
local TRENDS <const> = { gcHeapSizeTrend = "heap", lohSizeTrend = "loh", workingSetTrend = "working_set" }

local function trend_row(t)
  if type(t) ~= "table" then return nil end
  local row = setmetatable({}, TREND_ORDER)
  for _, member in ipairs(TREND_ORDER.__order) do row[member] = numbers.shown(t[member]) end
  return row
end

--- TriageEvidence: for people who want to judge on their own. What was not measured is left out.
---@param window RuleWindow
function M.evidence(window)
  local row = { cpuTopologyStatus = window:fact("processors") and "known" or "unknown" }
  for field, fact in pairs(NUMBERS) do row[field] = numbers.shown(window:fact(fact)) end
  for field, fact in pairs(TRENDS) do row[field] = trend_row(window:fact(fact)) end
  return row
end

return M
