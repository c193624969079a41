-- SPDX-License-Identifier: MIT
-- The artifact behind a jit handle: what the reducers kept, as counts and one row a method. Never changed once made.
local signal = require("lunette.signal")

local M = {}

local STORM <const> = "jit.storm" -- the signal that says when

-- Bits 7 to 9 of the flags of a jitted body. Bodies that are not jitted are precompiled ones.
local TIERS <const> = {
  [0] = "Unknown", "MinOptJitted", "Optimized", "QuickJitted", "OptimizedTier1", "OptimizedTier1OSR", "QuickJittedInstrumented",
  "OptimizedTier1Instrumented",
}
local NOT_JITTED <const> = "ReadyToRun"

---@class JitMethod
---@field namespace string
---@field name string
---@field signature string
---@field inclusive_ms number   compile time, of nested compilations too
---@field compilations integer
---@field last_tier string
---@field tier0 integer
---@field tier1 integer
---@field ready_to_run integer
---@field rejit integer         bodies after the first one: higher tiers, OSR, changed IL
---@field osr integer
---@field has_il_map boolean

---@class JitArtifact
---@field process_id integer
---@field started_unix_ms integer
---@field duration_ms integer
---@field starts integer          MethodJittingStarted
---@field completed integer       bodies that the JIT compiler finished
---@field unique_methods integer
---@field tiers table             tier0, tier1, ready_to_run, r2r_hit, r2r_miss_then_jit
---@field r2r_lookups integer
---@field rejit integer
---@field osr integer
---@field il_maps integer
---@field dynamic integer         of completed: dynamic methods
---@field jit_ms number           sum of all inclusive compile times
---@field peak { per_s: integer, share: number }   the busiest second
---@field tiering table           pauses, background_runs, background_compiled
---@field methods JitMethod[]     by inclusive time, longest first
---@field namespaces { name: string, n: integer }[]   those with the most compilations, most first
---@field cost table?
---@field notes string[]

local function method_of(row, il_maps)
  return {
    namespace = row.namespace or "", name = row.name or "", signature = row.signature or "", inclusive_ms = (row.ns or 0) / 1e6,
    compilations = row.n, last_tier = row.jitted == false and NOT_JITTED or TIERS[row.tier or 0], tier0 = row.tier0, tier1 = row.tier1,
    ready_to_run = row.ready_to_run, rejit = row.rejit, osr = row.osr, has_il_map = il_maps[row.id] ~= nil,
  }
end

local function by_time(a, b)
  if a.inclusive_ms ~= b.inclusive_ms then return a.inclusive_ms > b.inclusive_ms end
  if a.namespace ~= b.namespace then return a.namespace < b.namespace end
  if a.name ~= b.name then return a.name < b.name end
  return a.signature < b.signature
end

local function methods_of(group, il_maps)
  local list = {}
  for i, row in ipairs(group.rows) do list[i] = method_of(row, il_maps) end
  table.sort(list, by_time)
  return list
end

local function namespaces_of(group)
  local list = {}
  for i, row in ipairs(group.rows) do list[i] = { name = row.key or "", n = row.n } end
  table.sort(list, function(a, b)
    if a.n ~= b.n then return a.n > b.n end
    return a.name < b.name
  end)
  return list
end

local function peak_of(timeline)
  local peak = { per_s = 0, share = 0.0 }
  for _, bucket in ipairs(timeline.buckets) do
    peak.per_s = math.max(peak.per_s, bucket.n)
    peak.share = math.max(peak.share, (bucket.ns or 0) / timeline.every_ns)
  end
  return peak
end

--- Share of the methods that reached tier 1, in percent; 0 without any.
local function tier1_percent(methods)
  local reached = 0
  for _, m in ipairs(methods) do
    if m.tier1 > 0 then reached = reached + 1 end
  end
  return #methods > 0 and 100 * reached / #methods or 0
end

--- One line on how much the JIT compiler had to do.
---@param a JitArtifact
---@return string
function M.health(a)
  local seconds = math.max(a.duration_ms, 1) / 1000
  local what = ("%d compilations (%.1f a second) took %.1f ms"):format(a.completed, a.completed / seconds, a.jit_ms)
  if a.completed == 0 then
    return a.tiers.r2r_hit > 0 and ("quiet: nothing was compiled; %d methods ran from ReadyToRun code."):format(a.tiers.r2r_hit)
      or "quiet: nothing was compiled."
  elseif signal.stands_out(STORM, a) then
    return ("storm: %s, in the busiest second %d of them and %.0f %% of a core."):format(what, a.peak.per_s, 100 * a.peak.share)
  elseif a.tiers.tier0 * 2 > a.completed then
    return ("warming-up: %s, most at tier 0."):format(what)
  end
  return ("steady: %s."):format(what)
end

local function notes_of(a, result)
  local notes = a.notes
  local compiled = result.compiled
  if compiled.unmatched > 0 then
    notes[#notes + 1] = ("TimeUnknown: %d compilations began before the window%s and are counted without a time."):format(
      compiled.unmatched, a.starts == 0 and " or without a start event (it needs the level Verbose)" or "")
  end
  local other = compiled.methods.other
  if other then
    notes[#notes + 1] = ("MethodLimitReached: %d methods are listed; %d more, with the least JIT time, are in the totals only."):format(
      #a.methods, other.keys or 0)
  end
  if a.rejit > 0 then
    notes[#notes + 1] = ("ReJit: %d compilations made one more body of a method: a higher tier or OSR%s."):format(a.rejit,
      result.changed_il > 0 and (", and %d of changed IL (a profiler or hot reload)"):format(result.changed_il) or "")
  end
  if compiled.open > 0 then
    notes[#notes + 1] = ("Unfinished: %d compilations began and had not ended."):format(compiled.open)
  end
end

--- Makes the artifact.
---@param result table   of the program in collectors.jit
---@param of { process_id: integer, started_unix_ms: integer, duration_ms: integer, notes: string[], cost: table? }
---@return JitArtifact
function M.new(result, of)
  local il_maps = {}
  for _, row in ipairs(result.il_maps.rows) do il_maps[row.key] = row end
  local compiled = result.compiled
  local methods = methods_of(compiled.methods, il_maps)
  local a = {
    process_id = of.process_id, started_unix_ms = of.started_unix_ms, duration_ms = of.duration_ms, notes = of.notes, cost = of.cost,
    starts = result.starts, completed = result.completed, unique_methods = compiled.methods.keys,
    tiers = {
      tier0 = result.tier0, tier1 = result.tier1, ready_to_run = result.ready_to_run, r2r_hit = result.r2r_hits,
      r2r_miss_then_jit = result.r2r_miss_then_jit.pairs,
    },
    r2r_lookups = result.r2r_lookups, rejit = result.rejit, osr = result.osr, il_maps = result.n_il_maps, dynamic = result.dynamic,
    jit_ms = (compiled.ns or 0) / 1e6, peak = peak_of(compiled.seconds), methods = methods,
    namespaces = namespaces_of(compiled.namespaces), tier1_percent = tier1_percent(methods),
    tiering = {
      pauses = result.tiering_pauses, background_runs = result.background_runs, background_compiled = result.background_compiled or 0,
    },
  }
  if a.r2r_lookups > 0 then a.r2r_hit_percent = 100 * a.tiers.r2r_hit / a.r2r_lookups end
  notes_of(a, result)
  return a
end

return M
