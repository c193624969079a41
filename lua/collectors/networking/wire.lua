-- SPDX-License-Identifier: MIT
-- The records of networking on the wire. Latencies that were not measured are written as zero, which latencyAvailability says.
local address = require("collectors.networking.address")
local artifacts = require("collectors.networking.artifact")
local json = require("lunette.json")
local numbers = require("lunette.numbers")

local M = {}

M.INLINE_OPERATIONS, M.INLINE_COUNTERS = 10, 12 -- at Summary

local function span(time, name) return numbers.timespan((time and time[name] or 0) / 1e6) end
local function span_ms(time, name) return numbers.timespan(time and time[name] or 0) end

local function operation(o)
  return setmetatable({
    authority = o.authority, method = o.method, count = o.count, failed = o.failed, p50 = span(o.time, "p50"), p95 = span(o.time, "p95"),
    max = span(o.time, "max"), percentileSamples = o.paired, availability = o.availability,
  }, { __order = { "authority", "method", "count", "failed", "p50", "p95", "max", "percentileSamples", "availability" } })
end

--- The first operations, those with most requests first.
function M.operations(artifact, limit)
  local rows = json.array({})
  for i = 1, math.min(limit or #artifact.operations, #artifact.operations) do rows[i] = operation(artifact.operations[i]) end
  return rows
end

-- What was asked for, and what says that something went wrong, before what merely counts.
local HEADLINE <const> = {
  "requests-started-rate", "requests-failed-rate", "current-requests", "http11-connections-current-total",
  "http20-connections-current-total", "http11-requests-queue-duration", "http20-requests-queue-duration", "current-dns-lookups",
  "dns-lookups-duration", "current-tls-handshakes", "failed-tls-handshakes", "current-outgoing-connect-attempts",
}

local function counter(c)
  return { provider = c.provider, name = c.name, displayName = c.display, value = numbers.round(c.value, 3), unit = c.unit ~= "" and c.unit
    or nil }
end

--- The counters' last readings: all, or those of the headline.
function M.counters(artifact, headline)
  local rows, by_name = json.array({}), {}
  for _, c in ipairs(artifact.counters) do
    by_name[c.name] = c
    if not headline then rows[#rows + 1] = counter(c) end
  end
  for _, name in ipairs(headline and HEADLINE or {}) do
    if by_name[name] then rows[#rows + 1] = counter(by_name[name]) end
  end
  return rows
end

local function counts(f)
  return {
    populationVersion = artifacts.POPULATION, paired = f.paired, percentileSamples = f.paired, failedSamples = f.failed_pairs,
    noObservedFailureSamples = f.paired - f.failed_pairs, uncorrelatable = f.uncorrelatable,
  }
end

--- latencyAvailability, correlation and captureQuality: what every answer about networking carries.
function M.quality(artifact, into)
  local http = counts(artifact.http)
  http.statusErrorResponses = artifact.status_errors
  http.queueSamples, http.queuePercentileSamples = artifact.queue.samples, artifact.queue.samples
  http.queueRejectedSamples = artifact.queue.rejected
  into.latencyAvailability = {
    http = artifact.http.availability, queue = artifact.queue.availability, dns = artifact.dns.availability,
    tls = artifact.tls.availability,
  }
  into.correlation = { byKind = { http = http, dns = counts(artifact.dns), tls = counts(artifact.tls) } }
  into.captureQuality = {
    completed = not artifact.ended_early, transportLoss = artifact.lost, streamReadElapsed = numbers.timespan(artifact.read_ms),
    payloadParsingErrors = artifact.parsing_errors,
  }
  return into
end

--- The members of a view for lookups.
function M.dns(artifact, into)
  local f = artifact.dns
  into.dnsLookupsStarted, into.dnsLookupsStopped, into.dnsLookupsFailed = f.started, f.stopped, f.failed
  into.dnsP50, into.dnsP95, into.dnsMax = span(f.time, "p50"), span(f.time, "p95"), span(f.time, "max")
  return into
end

--- The members of a view for handshakes, but for the protocols.
function M.tls(artifact, into)
  local f = artifact.tls
  into.tlsHandshakesStarted, into.tlsHandshakesStopped, into.tlsHandshakesFailed = f.started, f.stopped, f.failed
  into.tlsP50, into.tlsP95, into.tlsMax = span(f.time, "p50"), span(f.time, "p95"), span(f.time, "max")
  return into
end

--- The members of a view for the wait for a connection.
function M.queue(artifact, into)
  local q = artifact.queue
  into.httpRequestsLeftQueue = q.left
  into.timeInQueueP50, into.timeInQueueP95, into.timeInQueueMax = span_ms(q.time, "p50"), span_ms(q.time, "p95"), span_ms(q.time, "max")
  return into
end

function M.protocols(artifact) return json.array({ table.unpack(artifact.protocols) }) end

-- All counts and latencies, as the snapshot and the view summary have them.
local function measured(artifact, into)
  local http, sockets = artifact.http, artifact.sockets
  into.httpRequestsStarted, into.httpRequestsStopped, into.httpRequestsFailed = http.started, http.stopped, http.failed
  into.httpConnectionsEstablished, into.httpConnectionsClosed = artifact.connected, artifact.closed
  into.httpRequestP50, into.httpRequestP95, into.httpRequestMax = span(http.time, "p50"), span(http.time, "p95"), span(http.time, "max")
  into.socketConnectsStarted, into.socketConnectsStopped = sockets.started, sockets.stopped
  into.socketConnectsFailed = sockets.failed
  return M.quality(artifact, M.queue(artifact, M.dns(artifact, M.tls(artifact, into))))
end

local ORDER <const> = {
  "processId", "startedAt", "duration", "httpRequestsStarted", "httpRequestsStopped", "httpRequestsFailed", "httpConnectionsEstablished",
  "httpConnectionsClosed", "httpRequestsLeftQueue", "httpRequestP50", "httpRequestP95", "httpRequestMax", "timeInQueueP50",
  "timeInQueueP95", "timeInQueueMax", "dnsLookupsStarted", "dnsLookupsStopped", "dnsLookupsFailed", "dnsP50", "dnsP95", "dnsMax",
  "tlsHandshakesStarted", "tlsHandshakesStopped", "tlsHandshakesFailed", "tlsP50", "tlsP95", "tlsMax", "tlsProtocols",
  "socketConnectsStarted", "socketConnectsStopped", "socketConnectsFailed", "latencyAvailability", "correlation", "captureQuality",
  "byOperation", "topOperations", "counters", "notes", "cost",
}

local function ordered(record) return setmetatable(record, { __order = ORDER }) end

--- NetworkingSnapshot.
---@param detail boolean   all operations and counters
function M.snapshot(artifact, detail)
  local notes = json.array({ table.unpack(artifact.notes) })
  if not detail and #artifact.operations > M.INLINE_OPERATIONS then
    notes[#notes + 1] = ("Inline: %d more operations are behind the handle: query_snapshot(view=\"byOperation\").")
      :format(#artifact.operations - M.INLINE_OPERATIONS)
  end
  return ordered(measured(artifact, {
    processId = artifact.process_id, startedAt = numbers.iso(artifact.started_unix_ms), duration = numbers.timespan(artifact.asked_ms),
    tlsProtocols = M.protocols(artifact), counters = M.counters(artifact, not detail),
    byOperation = M.operations(artifact, not detail and M.INLINE_OPERATIONS or nil), notes = notes, cost = artifact.cost,
  }))
end

--- NetworkingSummaryView.
function M.summary(artifact, limit)
  return ordered(measured(artifact, {
    topOperations = M.operations(artifact, limit), counters = M.counters(artifact), notes = json.array({ table.unpack(artifact.notes) }),
  }))
end

--- One sentence.
function M.sentence(artifact, source)
  local what = source.path and "the recording" or ("process %d"):format(artifact.process_id)
  local http, words = artifact.http, {}
  if http.availability == "measured" then words[1] = ("p95 %.1f ms"):format(http.time.p95 / 1e6) end
  if artifact.queue.availability == "measured" then
    words[#words + 1] = ("%d waited for a connection, p95 %.1f ms"):format(artifact.queue.left, artifact.queue.time.p95)
  end
  local top = artifact.operations[1]
  if top and top.authority ~= address.UNKNOWN then words[#words + 1] = "most to " .. top.authority end
  return ("%d outgoing requests of %s over %s, %d failed; %d lookups, %d TLS handshakes, %d connects%s."):format(http.started, what,
    numbers.span(artifact.duration_ms), http.failed, artifact.dns.started, artifact.tls.started, artifact.sockets.started,
    #words > 0 and ": " .. table.concat(words, "; ") or "")
end

return M
