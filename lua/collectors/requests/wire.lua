-- SPDX-License-Identifier: MIT
-- Requests in flight as answers show them. None has a status: a request gets one when it ends.
local json = require("lunette.json")
local numbers = require("lunette.numbers")

local M = {}

local ROW <const> = { __order = { "traceId", "spanId", "method", "path", "startedAt", "elapsedMs", "isLongRunning" } }
local SNAPSHOT <const> = { __order = {
  "processId", "startedAt", "duration", "requestsStarted", "requestsCompleted", "inFlightCount", "longRunningCount",
  "longRunningThresholdMs", "oldestElapsedMs", "requests", "notes", "cost",
} }

local function row(r)
  return setmetatable({
    traceId = r.trace_id, spanId = r.span_id, method = r.method, path = r.path, startedAt = numbers.iso(r.started_unix_ms),
    elapsedMs = numbers.round(r.elapsed_ms, 1), isLongRunning = r.long,
  }, ROW)
end

--- Rows, oldest first.
---@param artifact RequestsArtifact
---@param limit integer?      nil: all
---@param only_long boolean?  flagged ones alone
function M.rows(artifact, limit, only_long)
  local list = json.array({})
  for _, r in ipairs(artifact.rows) do
    if limit and #list >= limit then break end
    if r.long or not only_long then list[#list + 1] = row(r) end
  end
  return list
end

--- The counts that every answer has.
function M.counts(artifact)
  return {
    requestsStarted = artifact.started, requestsCompleted = artifact.completed, inFlightCount = artifact.in_flight,
    longRunningCount = artifact.long_running, longRunningThresholdMs = artifact.threshold_ms,
    oldestElapsedMs = numbers.round(artifact.oldest_ms, 1),
  }
end

--- InFlightRequestSnapshot.
---@param artifact RequestsArtifact
---@param limit integer   rows inline
function M.snapshot(artifact, limit)
  local s = setmetatable(M.counts(artifact), SNAPSHOT)
  s.processId, s.startedAt = artifact.process_id, numbers.iso(artifact.started_unix_ms)
  s.duration, s.cost = numbers.timespan(artifact.duration_ms), artifact.cost
  s.requests = M.rows(artifact, limit)
  s.notes = json.array({ table.unpack(artifact.notes) })
  if #artifact.rows > #s.requests then
    s.notes[#s.notes + 1] = ("Inline: the oldest %d of %d; all are behind the handle: query_snapshot(view=\"requests\").")
      :format(#s.requests, #artifact.rows)
  end
  return s
end

return M
