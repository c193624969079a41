-- SPDX-License-Identifier: MIT
-- A window of a web server as answers show it.
local json = require("lunette.json")
local numbers = require("lunette.numbers")

local M = {}

M.MAX_INLINE_OPERATIONS = 200 -- at Detail; the handle has all
M.SUMMARY_OPERATIONS = 10

local SNAPSHOT <const> = { __order = {
  "processId", "startedAt", "duration", "connectionsStarted", "connectionsStopped", "connectionsRejected", "requestsStarted",
  "requestsStopped", "tlsHandshakesStarted", "tlsHandshakesStopped", "tlsHandshakesFailed", "peakConnectionQueueLength",
  "peakRequestQueueLength", "requestP50", "requestP95", "requestMax", "tlsHandshakeP50", "tlsHandshakeP95", "tlsHandshakeMax",
  "connectionDurationP50", "connectionDurationP95", "connectionDurationMax", "counters", "queuePoints", "byOperation", "tlsProtocols",
  "configurationJson", "notes", "cost",
} }
local OPERATION <const> = { __order = { "method", "path", "httpVersion", "count", "p50", "p95", "max" } }
local COUNTER <const> = { __order = { "name", "displayName", "value", "unit" } }

-- The contract has no null here: what was not measured is zero, and a note says so.
local function span(ms) return numbers.timespan(ms or 0) end

local function put_times(into, prefix, t)
  into[prefix .. "P50"], into[prefix .. "P95"], into[prefix .. "Max"] = span(t.p50), span(t.p95), span(t.max)
end

--- Handshakes: counts and times.
function M.tls(artifact, into)
  local t = artifact.tls
  into.tlsHandshakesStarted, into.tlsHandshakesStopped, into.tlsHandshakesFailed = t.started, t.stopped, t.failed
  put_times(into, "tlsHandshake", t.time)
  return into
end

function M.protocols(artifact) return json.array({ table.unpack(artifact.tls.protocols) }) end

--- Highest readings of the two queues.
function M.peaks(artifact, into)
  into.peakConnectionQueueLength, into.peakRequestQueueLength = artifact.peaks.connection, artifact.peaks.request
  return into
end

--- All counts and times.
function M.totals(artifact, into)
  local c, r = artifact.connections, artifact.requests
  into.connectionsStarted, into.connectionsStopped, into.connectionsRejected = c.started, c.stopped, c.rejected
  into.requestsStarted, into.requestsStopped = r.started, r.stopped
  put_times(into, "request", r.time)
  put_times(into, "connectionDuration", c.time)
  return M.peaks(artifact, M.tls(artifact, into))
end

--- Operations, most frequent first.
---@param limit integer?
function M.operations(artifact, limit)
  local list = json.array({})
  for i = 1, math.min(limit or math.huge, #artifact.operations) do
    local op = artifact.operations[i]
    list[i] = setmetatable({
      method = op.method, path = op.path, httpVersion = op.version, count = op.n, p50 = span(op.p50), p95 = span(op.p95),
      max = span(op.max),
    }, OPERATION)
  end
  return list
end

--- Queue lengths in order of time.
function M.points(artifact)
  local list = json.array({})
  for i, p in ipairs(artifact.points) do
    list[i] = { timestamp = numbers.iso(p.unix_ms), connectionQueueLength = p.connection, requestQueueLength = p.request }
  end
  return list
end

local function counters(artifact)
  local list = json.array({})
  for i, c in ipairs(artifact.counters) do
    list[i] = setmetatable({ name = c.name, displayName = c.display, value = numbers.round(c.value, 3), unit = c.unit }, COUNTER)
  end
  return list
end

--- KestrelSnapshot.
---@param artifact KestrelArtifact
---@param depth string
function M.snapshot(artifact, depth)
  local summary = depth == "Summary"
  local s = M.totals(artifact, setmetatable({}, SNAPSHOT))
  s.processId, s.startedAt, s.duration = artifact.process_id, numbers.iso(artifact.started_unix_ms), numbers.timespan(artifact.duration_ms)
  s.counters, s.tlsProtocols, s.cost = counters(artifact), M.protocols(artifact), artifact.cost
  s.byOperation = M.operations(artifact, summary and M.SUMMARY_OPERATIONS or M.MAX_INLINE_OPERATIONS)
  s.queuePoints = summary and json.array({}) or M.points(artifact)
  s.configurationJson = not summary and artifact.options or nil
  s.notes = json.array({ table.unpack(artifact.notes) })
  if #artifact.operations > #s.byOperation then
    s.notes[#s.notes + 1] = ("Inline: the first %d of %d operations; all are behind the handle: query_snapshot(view=\"byOperation\").")
      :format(#s.byOperation, #artifact.operations)
  end
  return s
end

return M
