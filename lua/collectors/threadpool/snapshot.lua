-- SPDX-License-Identifier: MIT
-- How a threadpool artifact looks on the wire: ThreadPoolEventSnapshot and the rows of its views.
local json = require("lunette.json")
local numbers = require("lunette.numbers")

local M = {}

M.SUMMARY_ORIGINS = 5
M.DETAIL_ROWS = 200 -- of a list, inline; the handle has all

local SNAPSHOT_ORDER <const> = { __order = {
  "processId", "startedAt", "duration", "workerThreadTimeline", "iocpThreadTimeline", "hillClimbing", "workItemOrigins",
  "effectiveSettings", "totalEnqueueEvents", "totalDequeueEvents", "queueWait", "evidence", "quality", "notes", "cost",
} }
local BUCKET_ORDER <const> = { __order = { "timestamp", "count", "countProvenance" } }
local SAMPLE_ORDER <const> = { __order = {
  "timestamp", "reason", "oldCount", "newCount", "throughput", "reasonProvenance", "oldCountProvenance", "newCountProvenance",
} }
local ORIGIN_ORDER <const> = { __order = { "method", "count", "stack" } }
local SETTINGS_ORDER <const> = { __order = { "workerMinThreads", "workerMaxThreads", "iocpMinThreads", "iocpMaxThreads" } }
local WAIT_ORDER <const> = { __order = { "matched", "p50Ms", "p95Ms", "maxMs", "notDequeued" } }
local QUALITY_ORDER <const> = { __order = {
  "transportLoss", "processingFailure", "collectorEviction", "inferenceUsed", "windowOrStartupLimited", "unavailableMechanisms",
  "responseProjectionOnly", "supportsPositiveEvidence", "supportsAbsence", "supportsRegressionConclusions",
} }

local function time_of(a, at_ns) return numbers.iso(a.started_unix_ms + at_ns // 1000000) end

--- ThreadPoolCountBucket rows of a series.
---@param a PoolArtifact
---@param counts ThreadCounts
function M.buckets(a, counts, limit)
  local rows = json.array({})
  for i = 1, math.min(#counts.buckets, limit or #counts.buckets) do
    local bucket = counts.buckets[i]
    rows[i] = setmetatable({
      timestamp = time_of(a, bucket.at_ns), count = bucket.count, countProvenance = bucket.provenance,
    }, BUCKET_ORDER)
  end
  return rows
end

--- ThreadPoolHillClimbingSample rows: the last `limit` ones, in order of time.
---@param a PoolArtifact
---@param limit integer
function M.samples(a, limit)
  local rows = json.array({})
  for i = math.max(1, #a.adjustments - limit + 1), #a.adjustments do
    local s = a.adjustments[i]
    rows[#rows + 1] = setmetatable({
      timestamp = time_of(a, s.at_ns), reason = s.reason, oldCount = s.old_count, newCount = s.new_count,
      throughput = numbers.round(s.throughput, 3), reasonProvenance = s.reason_provenance, oldCountProvenance = s.old_provenance,
      newCountProvenance = s.new_provenance,
    }, SAMPLE_ORDER)
  end
  return rows
end

--- ThreadPoolWorkItemOrigin rows; with_stack: with the frames, leaf first.
---@param a PoolArtifact
---@param limit integer
---@param with_stack? boolean
function M.origins(a, limit, with_stack)
  local rows = json.array({})
  for i = 1, math.min(limit, #a.origins) do
    local origin = a.origins[i]
    rows[i] = setmetatable({
      method = origin.method, count = origin.count,
      stack = with_stack and origin.stack and json.array({ table.unpack(origin.stack) }) or nil,
    }, ORIGIN_ORDER)
  end
  return rows
end

--- ThreadPoolEffectiveSettings, or nil.
function M.settings(a)
  local s = a.settings
  return s and setmetatable({
    workerMinThreads = s.worker_min, workerMaxThreads = s.worker_max, iocpMinThreads = s.iocp_min, iocpMaxThreads = s.iocp_max,
  }, SETTINGS_ORDER)
end

--- ThreadPoolQueueWait, or nil.
function M.queue_wait(a)
  local w = a.queue_wait
  return w and setmetatable({
    matched = w.n, p50Ms = numbers.round(w.p50_ms, 3), p95Ms = numbers.round(w.p95_ms, 3), maxMs = numbers.round(w.max_ms, 3),
    notDequeued = w.not_dequeued,
  }, WAIT_ORDER)
end

--- ThreadPoolEvidence.
function M.evidence(a) return { confirmedStarvationCount = a.starvation, confirmedCooperativeBlockingCount = a.blocking } end

--- ThreadPoolQuality; projected: lists were left out of this answer only.
---@param a PoolArtifact
---@param projected? boolean
function M.quality(a, projected)
  local q = a.quality
  return setmetatable({
    transportLoss = q.transport_loss, processingFailure = q.processing_failure, collectorEviction = q.collector_eviction,
    inferenceUsed = q.inference_used, windowOrStartupLimited = q.window_limited,
    unavailableMechanisms = json.array({ table.unpack(q.unavailable) }), responseProjectionOnly = projected or false,
    supportsPositiveEvidence = q.supports_positive, supportsAbsence = q.supports_absence,
    supportsRegressionConclusions = q.supports_regression,
  }, QUALITY_ORDER)
end

--- ThreadPoolEventSnapshot. Summary leaves out the timelines and the adjustments: absent, neither empty nor zero.
---@param a PoolArtifact
---@param depth string
function M.wire(a, depth)
  local brief = depth == "Summary"
  local snapshot = {
    processId = a.process_id, startedAt = numbers.iso(a.started_unix_ms), duration = numbers.timespan(a.duration_ms),
    workItemOrigins = M.origins(a, brief and M.SUMMARY_ORIGINS or M.DETAIL_ROWS), effectiveSettings = M.settings(a),
    totalEnqueueEvents = a.enqueued, totalDequeueEvents = a.dequeued, queueWait = M.queue_wait(a), evidence = M.evidence(a),
    notes = json.array({ table.unpack(a.notes) }), cost = a.cost,
  }
  local left_out = #a.origins > #snapshot.workItemOrigins
  if brief then
    left_out = true
  else
    snapshot.workerThreadTimeline = M.buckets(a, a.workers, M.DETAIL_ROWS)
    if a.iocp.latest then snapshot.iocpThreadTimeline = M.buckets(a, a.iocp, M.DETAIL_ROWS) end
    snapshot.hillClimbing = M.samples(a, M.DETAIL_ROWS)
    left_out = left_out or #a.workers.buckets > M.DETAIL_ROWS or #a.adjustments > M.DETAIL_ROWS
  end
  snapshot.quality = M.quality(a, left_out)
  return setmetatable(snapshot, SNAPSHOT_ORDER)
end

return M
