-- SPDX-License-Identifier: MIT
-- How a jit artifact looks on the wire: JitSnapshot, its distribution and its method rows.
local artifacts = require("collectors.jit.artifact")
local json = require("lunette.json")
local numbers = require("lunette.numbers")

local M = {}

M.SUMMARY_METHODS = 10
M.DETAIL_METHODS = 150 -- inline; the handle has all

local METHOD_ORDER <const> = { __order = {
  "methodNamespace", "methodName", "methodSignature", "displayName", "inclusiveJitTimeMs", "compilationCount", "lastOptimizationTier",
  "tier0Count", "tier1Count", "readyToRunCount", "reJitCount", "osrCount", "hasIlMap",
} }
local DISTRIBUTION_ORDER <const> = { __order = { "tier0", "tier1", "readyToRun", "r2rHit", "r2rMissThenJit" } }
local SNAPSHOT_ORDER <const> = { __order = {
  "processId", "startedAt", "duration", "jitStartCount", "completedCompilations", "uniqueMethods", "jitTimeMs", "distribution",
  "r2rLookupCount", "reJitCount", "osrCount", "ilMapCount", "dynamicMethodCount", "tier1Percent", "r2rHitRatePercent", "healthCheck",
  "tiering", "methods", "notes", "cost",
} }
local TIERING_ORDER <const> = { __order = { "pauses", "backgroundRuns", "backgroundCompilations" } }

--- JitMethodSummary.
---@param m JitMethod
function M.method(m)
  return setmetatable({
    methodNamespace = m.namespace, methodName = m.name, methodSignature = m.signature,
    displayName = m.namespace ~= "" and m.namespace .. "." .. m.name or m.name, inclusiveJitTimeMs = numbers.round(m.inclusive_ms, 3),
    compilationCount = m.compilations, lastOptimizationTier = m.last_tier, tier0Count = m.tier0, tier1Count = m.tier1,
    readyToRunCount = m.ready_to_run, reJitCount = m.rejit, osrCount = m.osr, hasIlMap = m.has_il_map,
  }, METHOD_ORDER)
end

--- The first `limit` methods that `keep` lets pass, and how many did in all.
---@param a JitArtifact
---@param limit integer
---@param keep? fun(m: JitMethod): boolean
function M.methods(a, limit, keep)
  local rows, n = json.array({}), 0
  for _, m in ipairs(a.methods) do
    if not keep or keep(m) then
      n = n + 1
      if n <= limit then rows[n] = M.method(m) end
    end
  end
  return rows, n
end

--- JitTierDistribution.
---@param a JitArtifact
function M.distribution(a)
  local t = a.tiers
  return setmetatable({
    tier0 = t.tier0, tier1 = t.tier1, readyToRun = t.ready_to_run, r2rHit = t.r2r_hit, r2rMissThenJit = t.r2r_miss_then_jit,
  }, DISTRIBUTION_ORDER)
end

--- The totals that the snapshot and its summary view share.
---@param a JitArtifact
function M.totals(a)
  return {
    jitStartCount = a.starts, completedCompilations = a.completed, uniqueMethods = a.unique_methods,
    jitTimeMs = numbers.round(a.jit_ms, 3), distribution = M.distribution(a), r2rLookupCount = a.r2r_lookups,
    reJitCount = a.rejit, osrCount = a.osr, ilMapCount = a.il_maps, dynamicMethodCount = a.dynamic,
    tier1Percent = numbers.round(a.tier1_percent, 1), r2rHitRatePercent = numbers.round(a.r2r_hit_percent, 1),
    healthCheck = artifacts.health(a),
    tiering = setmetatable({
      pauses = a.tiering.pauses, backgroundRuns = a.tiering.background_runs, backgroundCompilations = a.tiering.background_compiled,
    }, TIERING_ORDER),
  }
end

--- JitSnapshot, with as many methods as the depth wants.
---@param a JitArtifact
---@param depth string
function M.wire(a, depth)
  local limit = depth == "Summary" and M.SUMMARY_METHODS or M.DETAIL_METHODS
  local rows, n = M.methods(a, limit)
  local notes = json.array({ table.unpack(a.notes) })
  if n > #rows then
    notes[#notes + 1] = ("Inline: %d of %d methods; the others are behind the handle: query_snapshot(view=\"topMethods\")."):format(
      #rows, n)
  end
  local snapshot = M.totals(a)
  snapshot.processId, snapshot.startedAt, snapshot.duration =
    a.process_id, numbers.iso(a.started_unix_ms), numbers.timespan(a.duration_ms)
  snapshot.methods, snapshot.notes, snapshot.cost = rows, notes, a.cost
  return setmetatable(snapshot, SNAPSHOT_ORDER)
end

return M
