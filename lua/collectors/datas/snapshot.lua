-- SPDX-License-Identifier: MIT
-- The artifact behind a gc-datas handle, and how its rows look on the wire. Never changed once made.
local json = require("lunette.json")
local numbers = require("lunette.numbers")

local M = {}

M.NONE = "NoDatasEvents"  -- the status of a window without an adaptation event
M.INLINE_ROWS = 150       -- of each list at Detail; the handle has all

---@class DatasArtifact
---@field process_id integer
---@field started_unix_ms integer
---@field duration_ms number
---@field start_unix_ns integer
---@field history DatasHistory
---@field cost table?
---@field notes string[]
---@field origin "live"|"trace"

local SAMPLE_ORDER <const> = { __order = { "timestamp", "gcIndex", "elapsedBetweenGcsMs", "pauseMs" } }
local TUNING_ORDER <const> = { __order = { "timestamp", "gcIndex", "heapCount", "newHeapCount", "throughputCostPercent", "isTransition" } }
local GEN2_ORDER <const> = { __order = { "timestamp", "gcIndex", "newHeapCount", "gen2ThroughputCostPercent" } }

local function when(artifact, row) return numbers.iso((artifact.start_unix_ns + row.at) / 1e6) end
local function ms(us) return us and numbers.round(us / 1000, 3) or nil end

local function rows_of(list, row, limit)
  local rows = json.array({})
  for i = 1, math.min(#list, limit or #list) do rows[i] = row(list[i]) end
  return rows, #list - #rows
end

--- DatasSample rows in order of time.
function M.samples(artifact, limit)
  return rows_of(artifact.history.samples, function(r)
    return setmetatable({
      timestamp = when(artifact, r), gcIndex = r.gc_index, elapsedBetweenGcsMs = ms(r.elapsed_us), pauseMs = ms(r.pause_us),
      sohMslWaitMs = ms(r.soh_msl_us), uohMslWaitMs = ms(r.uoh_msl_us), mslWaitMs = ms(r.msl_us),
      totalSohStableSizeBytes = r.soh_stable_bytes, gen0BudgetPerHeapBytes = r.gen0_budget_bytes,
    }, SAMPLE_ORDER)
  end, limit)
end

--- DatasTuningEvent rows in order of time; only the transitions and the first one when asked so.
function M.tuning(artifact, limit, changes_only)
  local list = artifact.history.tuning
  if changes_only then
    local kept = {}
    for i, r in ipairs(list) do
      if i == 1 or r.is_transition then kept[#kept + 1] = r end
    end
    list = kept
  end
  return rows_of(list, function(r)
    return setmetatable({
      timestamp = when(artifact, r), gcIndex = r.gc_index, heapCount = r.before, newHeapCount = r.new_heaps,
      throughputCostPercent = numbers.round(r.cost_percent, 3), isTransition = r.is_transition,
    }, TUNING_ORDER)
  end, limit)
end

--- DatasFullGcTuningEvent rows in order of time.
function M.gen2(artifact, limit)
  return rows_of(artifact.history.gen2, function(r)
    return setmetatable({
      timestamp = when(artifact, r), gcIndex = r.gc_index, newHeapCount = r.new_heaps,
      gen2ThroughputCostPercent = numbers.round(r.cost_percent, 3),
    }, GEN2_ORDER)
  end, limit)
end

local function mean(r) return r.n > 0 and numbers.round(r.sum / r.n, 1) or nil end

--- DatasOverview over the whole window; without an event only its count of changes, which is 0.
function M.overview(artifact)
  local s, seen = artifact.history.stats, artifact.history:seen() > 0
  return setmetatable({
    minHeapCount = seen and s.heaps.min or nil, maxHeapCount = seen and s.heaps.max or nil, heapCountChanges = s.changes,
    throughputCostPercentMin = numbers.round(s.cost.min, 3), throughputCostPercentMean = s.cost.n > 0
      and numbers.round(s.cost.sum / s.cost.n, 3) or nil,
    throughputCostPercentMax = numbers.round(s.cost.max, 3), meanGen0BudgetBytes = mean(s.budget), meanSohStableSizeBytes = mean(s.stable),
  }, { __order = { "minHeapCount", "maxHeapCount", "heapCountChanges" } })
end

function M.notes(artifact) return json.array({ table.unpack(artifact.notes) }) end

--- The window in one sentence.
function M.sentence(artifact)
  local h = artifact.history
  local what = artifact.origin == "trace" and "the recording" or ("process %d"):format(artifact.process_id)
  if h:seen() == 0 then
    return ("%s: no adaptation event of %s over %s, %d collection%s."):format(M.NONE, what, numbers.span(artifact.duration_ms),
      h.collections, h.collections == 1 and "" or "s")
  end
  local s = h.stats
  return ("Server GC of %s over %s: %s heaps, %d change%s in %d decisions%s."):format(what, numbers.span(artifact.duration_ms),
    not s.heaps.min and "?" or s.heaps.min == s.heaps.max and tostring(s.heaps.min) or ("%d to %d"):format(s.heaps.min, s.heaps.max),
    s.changes, s.changes == 1 and "" or "s", #h.tuning + #h.gen2 + h.dropped.tuning + h.dropped.gen2,
    s.cost.n > 0 and (", throughput cost %.1f %% on average"):format(s.cost.sum / s.cost.n) or "")
end

--- DatasSnapshot; the three lists only beyond Summary.
---@param artifact DatasArtifact
---@param depth string
function M.wire(artifact, depth)
  local limit = depth == "Summary" and 0 or M.INLINE_ROWS
  local notes = M.notes(artifact)
  local samples, more_samples = M.samples(artifact, limit)
  local tuning, more_tuning = M.tuning(artifact, limit)
  local gen2, more_gen2 = M.gen2(artifact, limit)
  if depth ~= "Summary" and more_samples + more_tuning + more_gen2 > 0 then
    notes[#notes + 1] = ("Inline: %d more samples, %d more decisions and %d more gen2 decisions are behind the handle: query_snapshot.")
      :format(more_samples, more_tuning, more_gen2)
  end
  return setmetatable({
    processId = artifact.process_id, startedAt = numbers.iso(artifact.started_unix_ms), duration = numbers.timespan(artifact.duration_ms),
    status = artifact.history:seen() == 0 and M.NONE or nil, overview = M.overview(artifact), samples = samples, tuningEvents = tuning,
    fullGcTuningEvents = gen2, notes = notes, cost = artifact.cost,
  }, { __order = { "processId", "startedAt", "duration", "status", "overview", "tuningEvents", "fullGcTuningEvents", "samples", "notes" } })
end

return M
