-- SPDX-License-Identifier: MIT
-- How an activities capture looks on the wire.
local json = require("lunette.json")
local numbers = require("lunette.numbers")

local M = {}

M.INLINE_BYTES = 10 * 1024   -- of spans in a default answer
M.ASKED_BYTES = 60 * 1024    -- of spans in an answer whose caller said how many
M.INLINE_SUMS = 20           -- rows of each sum inline

local SPAN_ORDER <const> = { __order = {
  "sourceName", "operationName", "displayName", "id", "parentId", "traceId", "spanId", "parentSpanId", "startedAt", "stoppedAt", "duration",
  "kind", "status", "statusDescription", "tags", "httpDestination" } }
local SUM_ORDER <const> = { __order = {
  "sourceName", "operationName", "count", "completedCount", "averageDurationMs", "p95DurationMs", "maxDurationMs", "errorCount" } }
local RETENTION_ORDER <const> = { __order = {
  "appliedTraceId", "effectiveCap", "observedActivities", "matchingActivities", "retainedMatchingActivities", "droppedMatchingActivities",
  "nonMatchingActivities", "retentionLimited" } }

--- Nanoseconds as milliseconds, exact to the runtime's tick.
function M.ms(ns) return ns and numbers.round(ns / 1e6, 4) or nil end

--- HttpDestination.
function M.destination(found)
  if not found then return nil end
  return setmetatable({
    scheme = found.scheme, host = found.host, port = found.port, availability = found.availability, provenance = found.provenance,
  }, { __order = { "scheme", "host", "port", "availability", "provenance" } })
end

--- HttpDestinationCorrelation; nil when destinations were not asked for.
function M.correlation(artifact)
  local a = artifact.destinations
  if not a then return nil end
  return setmetatable({
    matched = a.matched, missing = a.missing, duplicate = a.duplicate, conflicting = a.conflicting, withheld = a.withheld,
    capLimited = a.cap_limited, transportLoss = a.lost,
  }, { __order = { "matched", "missing", "duplicate", "conflicting", "withheld", "capLimited", "transportLoss" } })
end

--- CapturedActivity.
---@param s Span
function M.span(s)
  return setmetatable({
    sourceName = s.source, operationName = s.operation, displayName = s.name, id = s.id, parentId = s.parent_id, traceId = s.trace_id,
    spanId = s.span_id, parentSpanId = s.parent_span_id, startedAt = numbers.iso(s.start_unix_ns / 1e6),
    stoppedAt = s.took_ns and numbers.iso((s.start_unix_ns + s.took_ns) / 1e6), duration = s.took_ns and numbers.timespan(s.took_ns / 1e6),
    kind = s.kind, status = s.status, statusDescription = s.said, tags = s.tags, httpDestination = M.destination(s.destination),
  }, SPAN_ORDER)
end

--- ActivityRetention.
function M.retention(artifact)
  local r = artifact.retention
  return setmetatable({
    appliedTraceId = r.trace_id, effectiveCap = r.cap, observedActivities = r.observed, matchingActivities = r.matching,
    retainedMatchingActivities = r.retained, droppedMatchingActivities = r.matching - r.retained,
    nonMatchingActivities = r.observed - r.matching, retentionLimited = r.matching > r.retained,
  }, RETENTION_ORDER)
end

local function sum(row)
  return setmetatable({
    sourceName = row.source, operationName = row.operation, count = row.n, completedCount = row.n,
    averageDurationMs = numbers.round(row.timed > 0 and row.sum_ms / row.timed or 0, 4),
    p95DurationMs = row.operation and numbers.round(row.p95_ms, 3) or nil, maxDurationMs = numbers.round(row.max_ms, 4),
    errorCount = row.errors,
  }, SUM_ORDER)
end

local function sums(list, limit)
  local rows = json.array({})
  for i = 1, math.min(#list, limit or #list) do rows[i] = sum(list[i]) end
  return rows
end

--- ActivitySourceSummary rows, most frequent first.
function M.by_source(artifact, limit) return sums(artifact.by_source, limit) end
--- ActivityOperationSummary rows, most frequent first.
function M.by_operation(artifact, limit) return sums(artifact.by_operation, limit) end

--- The notes of the window.
function M.notes(artifact) return json.array({ table.unpack(artifact.notes) }) end

local GROUPED_ORDER <const> = { __order = {
  "sourceFilters", "totalActivities", "capturedCount", "truncated", "sources", "operations", "retention", "httpDestinationCorrelation" } }

--- ActivitiesBySourceView and ActivitiesByOperationView: the rows under their own name.
function M.grouped(artifact, name, rows)
  local r = artifact.retention
  return setmetatable({
    sourceFilters = M.filters(artifact), totalActivities = r.observed, capturedCount = #artifact.spans, truncated = r.matching > r.retained,
    retention = M.retention(artifact), httpDestinationCorrelation = M.correlation(artifact), [name] = rows,
  }, GROUPED_ORDER)
end

--- The patterns that the caller gave; nil for all.
function M.filters(artifact) return artifact.sources and json.array({ table.unpack(artifact.sources) }) or nil end

local function by_start(a, b)
  if a.start_unix_ns ~= b.start_unix_ns then return a.start_unix_ns < b.start_unix_ns end
  if a.source ~= b.source then return a.source < b.source end
  if a.operation ~= b.operation then return a.operation < b.operation end
  return a.ordinal < b.ordinal
end

--- The spans by start, source and operation.
---@return Span[]
function M.in_order(artifact)
  local list = table.move(artifact.spans, 1, #artifact.spans, 1, {})
  table.sort(list, by_start)
  return list
end

--- CapturedActivity rows by start: at most `limit`, and `bytes` of JSON.
function M.spans(artifact, limit, bytes)
  local rows, list, left = json.array({}), M.in_order(artifact), bytes or math.huge
  for i = 1, math.min(#list, limit or #list) do
    local row = M.span(list[i])
    left = left - #json.encode(row)
    if left < 0 then break end
    rows[i] = row
  end
  return rows
end

--- ActivityCapture.
---@param asked boolean   the caller said how many spans
function M.capture(artifact, asked)
  local notes = { table.unpack(artifact.notes) }
  local rows = M.spans(artifact, nil, asked and M.ASKED_BYTES or M.INLINE_BYTES)
  if #rows < #artifact.spans then
    notes[#notes + 1] = ("Inline: %d more spans are behind the handle: query_snapshot(view=\"activities\").")
      :format(#artifact.spans - #rows)
  end
  local more = math.max(#artifact.by_operation, #artifact.by_source) - M.INLINE_SUMS
  if more > 0 then notes[#notes + 1] = "Inline: more sums are behind the handle: query_snapshot(view=\"byOperation\")." end
  return setmetatable({
    processId = artifact.process_id, sourceFilters = M.filters(artifact), startedAt = numbers.iso(artifact.started_unix_ms),
    duration = numbers.timespan(artifact.duration_ms), totalActivities = artifact.retention.observed,
    completedActivities = artifact.retention.observed, retention = M.retention(artifact), bySource = M.by_source(artifact, M.INLINE_SUMS),
    byOperation = M.by_operation(artifact, M.INLINE_SUMS), httpDestinationCorrelation = M.correlation(artifact), activities = rows,
    notes = json.array(notes), cost = artifact.cost,
  }, { __order = {
    "processId", "sourceFilters", "startedAt", "duration", "totalActivities", "completedActivities", "retention", "bySource", "byOperation",
    "httpDestinationCorrelation", "activities", "notes", "cost" } })
end

return M
