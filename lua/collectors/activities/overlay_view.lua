-- SPDX-License-Identifier: MIT
-- The wire form of an overlay: which two captures may be laid over each other, and what came of it.
local errors = require("lunette.errors")
local handles = require("lunette.handles")
local json = require("lunette.json")
local numbers = require("lunette.numbers")
local overlay = require("collectors.activities.overlay")
local wire = require("collectors.activities.wire")

local M = {}

M.MAX_ROWS = 100
local GC_KIND <const> = "gc-events"
local ORDER <const> = { __order = {
  "totalActivities", "completedActivities", "impactedCount", "returnedCount", "totalGcOverlapMs", "totalGcCollections", "totalGcPauseMs",
  "measurementStatus", "candidateSelection", "lifetimeCompatibility", "inputOmittedPauseIntervals", "invalidSpanCount", "flags",
  "impactedActivities" } }
local ROW_ORDER <const> = { __order = {
  "sourceName", "operationName", "activityId", "traceId", "spanId", "durationMs", "gcPauseMs", "gcPausePercent", "isLowerBound",
  "gcEvents" } }
local EVENT_ORDER <const> = { __order = { "generation", "reason", "type", "pauseDurationMs", "overlapMs" } }

local function refused(message) return nil, errors.invalid("gcHandle", message) end

--- The entry of the gc capture, when the two belong together; and what is known of their process.
---@return table? entry, string|table lifetime_or_err
local function partner(entry, gc_handle)
  local other, err = handles.get(gc_handle:upper())
  if not other then return nil, err end
  if other.kind ~= GC_KIND then
    return nil, errors.new("InvalidHandle", ("gcHandle is a handle of kind %s; gc-overlay needs one of collect_events(kind=\"gc\").")
      :format(other.kind), { detail = gc_handle })
  end
  if other.process_id ~= entry.process_id then
    return refused(("The gc capture is of process %s, the activities of process %s."):format(tostring(other.process_id),
      tostring(entry.process_id)))
  end
  if other.origin ~= entry.origin then
    return refused("One capture is live and the other is of a recording: they cannot be known to be of one process.")
  end
  if not (other.process_start and entry.process_start) then return other, "unknown" end
  if other.process_start ~= entry.process_start then
    return refused(("Process id %d was used again: the two captures are of different processes."):format(entry.process_id))
  end
  return other, "verified"
end

local function event(hit)
  local generation, reason, kind = overlay.called(hit.pause)
  return setmetatable({
    generation = generation, reason = reason, type = kind, pauseDurationMs = wire.ms(hit.pause.to - hit.pause.from),
    overlapMs = wire.ms(hit.ns),
  }, EVENT_ORDER)
end

local function row(item)
  local events = json.array({})
  for i = 1, math.min(#item.hit, overlay.MAX_EVENTS) do events[i] = event(item.hit[i]) end
  local s = item.span
  return setmetatable({
    sourceName = s.source, operationName = s.operation, activityId = s.id, traceId = s.trace_id, spanId = s.span_id,
    durationMs = wire.ms(s.took_ns), gcPauseMs = wire.ms(item.ns), gcPausePercent = numbers.round(item.percent, 3),
    isLowerBound = item.lower_bound, gcEvents = events,
  }, ROW_ORDER)
end

-- Filters leave spans out on purpose: that is no loss.
local function selection_of(artifact)
  local r = artifact.retention
  return (r.matching > r.retained or artifact.lost > 0) and "incomplete" or "complete"
end

local function sentence(result)
  if result.status == "unavailable" then return "Pauses are not known: " .. table.concat(result.flags, ", ") .. "." end
  return ("%d of the spans stood still for the collector; %.1f ms of pauses in the common window."):format(#result.impacted,
    result.pause_ns / 1e6)
end

--- GcOverlayResult.
---@param artifact table       of the activities handle
---@param entry table          its handle
---@param gc_handle string
---@param top_n integer
function M.of(artifact, entry, gc_handle, top_n)
  local other, lifetime = partner(entry, gc_handle)
  if not other then return nil, lifetime end
  local result = overlay.of(artifact, other.artifact)
  if not result then
    return refused("The two captures have no time in common: collect kind=gc and kind=activities at the same time.")
  end
  local rows = json.array({})
  for i = 1, math.min(#result.impacted, top_n, M.MAX_ROWS) do rows[i] = row(result.impacted[i]) end
  return setmetatable({
    totalActivities = artifact.retention.observed, completedActivities = artifact.retention.observed, impactedCount = #result.impacted,
    returnedCount = #rows, totalGcOverlapMs = wire.ms(result.overlap_ns), totalGcCollections = result.collections,
    totalGcPauseMs = wire.ms(result.pause_ns), impactedActivities = rows, measurementStatus = result.status,
    candidateSelection = selection_of(artifact), lifetimeCompatibility = lifetime, inputOmittedPauseIntervals = result.omitted or 0,
    flags = json.array(result.flags), invalidSpanCount = result.invalid,
  }, ORDER), { summary = sentence(result) }
end

return M
