-- SPDX-License-Identifier: MIT
-- The artifact behind a threadpool handle. Never changed once made.
local adjustments = require("collectors.threadpool.adjustments")
local origins = require("collectors.threadpool.origins")
local quality = require("collectors.threadpool.quality")
local thresholds = require("lunette.thresholds")
local timeline = require("collectors.threadpool.timeline")

local M = {}

---@class PoolArtifact
---@field process_id integer
---@field started_unix_ms integer
---@field duration_ms integer
---@field workers ThreadCounts
---@field iocp ThreadCounts
---@field adjustments PoolAdjustment[]
---@field n_adjustments integer          all, also those not kept
---@field reasons table<string, integer> all, by reason
---@field origins PoolOrigin[]
---@field settings { worker_min: integer, worker_max: integer, iocp_min: integer, iocp_max: integer }?
---@field enqueued integer
---@field dequeued integer
---@field queue_wait table?              of the work items seen entering and leaving the queue
---@field starvation integer             adjustments for which the runtime said so
---@field blocking integer
---@field quality PoolQuality
---@field notes string[]
---@field cost table?

local function settings_of(result, notes)
  local row = result.limits.rows[#result.limits.rows]
  if row and row.worker_min and row.worker_max then
    return { worker_min = row.worker_min, worker_max = row.worker_max, iocp_min = row.iocp_min or 0, iocp_max = row.iocp_max or 0 }
  end
  notes[#notes + 1] = "SettingsNotSent: the runtime tells the pool's minimum and maximum only when the pool starts or they are changed; "
    .. "collect_thread_snapshot, then query_snapshot(view=\"threadpool\"), reads them from the process."
  return nil
end

local function note_origins(all, result, notes)
  if result.enqueued == 0 then
    notes[#notes + 1] = "NoWorkItems: no work item was queued in the window, or System.Diagnostics.Eventing.FrameworkEventSource did not "
      .. "tell (not recorded, or switched off by EventSourceSupport=false)."
    return quality.WORK_ITEMS
  elseif #all.list == 0 then
    notes[#notes + 1] = all.unnamed > 0
      and "OriginsUnnamed: the enqueue stacks came without method names (a NativeAOT program, or the names were not sent in time), so "
        .. "workItemOrigins is empty."
      or "NoStacks: the enqueue events came without stacks, so workItemOrigins is empty."
    return quality.STACKS
  elseif all.not_listed > 0 then
    notes[#notes + 1] = ("OriginLimitReached: %d enqueue events of rarer stacks are in the totals only."):format(all.not_listed)
  end
end

-- Milliseconds between entering and leaving the queue. Work items are told apart by a hash code, which may repeat.
local function queue_wait_of(waits)
  if waits.pairs == 0 then return nil end
  local ms = waits.ms
  return { n = waits.pairs, p50_ms = ms.p50, p95_ms = ms.p95, max_ms = ms.max, not_dequeued = waits.open }
end

local function note_adjustments(a, notes, recorded)
  if #a.adjustments < a.n_adjustments then
    notes[#notes + 1] = ("AdjustmentLimitReached: the last %d of %d adjustments are listed; the counts by reason are of all."):format(
      #a.adjustments, a.n_adjustments)
  end
  if not a.workers.latest then
    notes[#notes + 1] = "NoMeasurement: no worker thread started, stopped or went to wait in the window, so the number of threads is "
      .. "not known."
      .. (recorded and " Or it was recorded without the runtime's keyword Threading (0x10000): \"none\" proves nothing." or "")
  end
end

local function note_impact(a, notes)
  local per_s = a.enqueued * 1000 // math.max(a.duration_ms, 1)
  if per_s >= thresholds.of("measurement").slowed_items_per_s then
    notes[#notes + 1] = ("TargetSlowed: %d work items a second were queued, each of which walked a stack for this window: the pool was "
      .. "slower while it was watched than it is otherwise, and the time in its queue longer."):format(per_s)
  end
end

local function evicted(result, a)
  return #a.adjustments < a.n_adjustments or result.origins.other ~= nil or (result.waits.dropped or 0) > 0
    or (result.counts.dropped or 0) > 0 or (result.meta.stacks_dropped or 0) > 0
end

--- Makes the artifact.
---@param result table   of the program in collectors.threadpool
---@param of { process_id: integer, started_unix_ms: integer, duration_ms: integer, notes: string[], cost: table?, lost: integer?,
---  ended_early: boolean, recorded: boolean? }
---@return PoolArtifact
function M.new(result, of)
  local notes, end_ns = of.notes, of.duration_ms * 1000000
  local a = {
    process_id = of.process_id, started_unix_ms = of.started_unix_ms, duration_ms = of.duration_ms, notes = notes, cost = of.cost,
    workers = timeline.fill(result.counts, end_ns), iocp = timeline.fill(result.iocp_counts, end_ns),
    adjustments = adjustments.list(result.adjustments), n_adjustments = result.n_adjustments, reasons = adjustments.counts(result.reasons),
    settings = settings_of(result, notes), enqueued = result.enqueued, dequeued = result.dequeued,
    queue_wait = queue_wait_of(result.waits),
  }
  a.starvation, a.blocking = a.reasons[adjustments.STARVATION] or 0, a.reasons[adjustments.BLOCKING] or 0
  local all = origins.new(result.origins, result.stacks or {})
  a.origins = all.list
  note_adjustments(a, notes, of.recorded)
  note_impact(a, notes)
  local unavailable = {}
  if not a.iocp.latest then unavailable[#unavailable + 1] = quality.IOCP end
  if not a.settings then unavailable[#unavailable + 1] = quality.SETTINGS end
  unavailable[#unavailable + 1] = note_origins(all, result, notes)
  local first = a.workers.buckets[1]
  a.quality = quality.judge {
    lost = of.lost, errors = result.meta.errors or 0, evicted = evicted(result, a), ended_early = of.ended_early,
    inferred = a.workers.carried or a.iocp.carried or #a.adjustments > 1, late = not first or first.at_ns > 0,
    measured = first ~= nil, recorded = of.recorded, unavailable = unavailable,
  }
  return a
end

return M
