-- SPDX-License-Identifier: MIT
-- The records of outgoing requests on the wire.
local json = require("lunette.json")
local numbers = require("lunette.numbers")

local M = {}

M.INLINE_HOSTS, M.INLINE_SLOWEST, M.INLINE_ALL = 5, 3, 20 -- at Summary, the last at Detail

local function ms(ns) return ns and numbers.round(ns / 1e6, 3) end

local function rows_of(list, limit, make)
  local rows = json.array({})
  for i = 1, math.min(limit or #list, #list) do rows[i] = make(list[i]) end
  return rows
end

local STAT <const> = { __order = {
  "name", "kind", "count", "failed", "totalMs", "share", "p50Ms", "p95Ms", "maxMs", "percentileSamples",
} }

local function stat(p)
  return setmetatable({
    name = p.name, kind = p.kind, count = p.n, failed = p.failed > 0 and p.failed or nil, totalMs = ms(p.total),
    share = numbers.round(p.share, 4), p50Ms = ms(p.p50), p95Ms = ms(p.p95), maxMs = ms(p.max), percentileSamples = p.samples,
  }, STAT)
end

--- Phases and waits, those with most time first, then the set-up of connections.
function M.parts(artifact) return rows_of(artifact.parts, nil, stat) end

local HOST <const> = { __order = {
  "authority", "count", "failed", "statusErrors", "redirects", "totalMs", "p50Ms", "p95Ms", "maxMs", "percentileSamples", "slowestPart",
  "slowestPartMs",
} }

local function host(h)
  return setmetatable({
    authority = h.authority, count = h.n, failed = h.failed, statusErrors = h.status_errors, redirects = h.redirects, totalMs = ms(h.total),
    p50Ms = ms(h.p50), p95Ms = ms(h.p95), maxMs = ms(h.max), percentileSamples = h.samples, slowestPart = h.slowest,
    slowestPartMs = ms(h.slowest_ns),
  }, HOST)
end

function M.hosts(artifact, limit) return rows_of(artifact.hosts, limit, host) end

local PART <const> = { __order = { "name", "kind", "durationMs", "unfinished", "failed", "inferred" } }
local LEG <const> = { __order = { "url", "status", "durationMs", "connectionId", "newConnection", "parts" } }
local REQUEST <const> = { __order = {
  "startedAt", "url", "outcome", "status", "failedIn", "waitsIn", "error", "cause", "durationMs", "slowestPart", "redirects",
  "activityPath", "legs",
} }

local function part(p)
  return setmetatable({
    name = p.name, kind = p.kind, durationMs = ms(p.ns), unfinished = p.unfinished, failed = p.failed,
    inferred = p.inherited,
  }, PART)
end

local function leg(l)
  return setmetatable({
    url = l.url, status = l.status, durationMs = ms(l.ns), connectionId = l.connection, newConnection = l.made,
    parts = rows_of(l.parts, nil, part),
  }, LEG)
end

local function outcome(row)
  if row.waits_in then return "inFlight" end
  if row.failed then return "failed" end
  return row.status and row.status >= 400 and "statusError" or "ok"
end

--- Single requests, in the order of the list.
function M.requests(artifact, list, limit)
  return rows_of(list, limit, function(row)
    return setmetatable({
      startedAt = numbers.iso(artifact.started_unix_ms + row.at // 1000000), url = row.legs[1].url, outcome = outcome(row),
      status = row.status, failedIn = row.failed_in, waitsIn = row.waits_in, error = row.error, cause = row.cause,
      durationMs = ms(row.ns), slowestPart = row.slowest, redirects = row.redirects, activityPath = row.path,
      legs = rows_of(row.legs, nil, leg),
    }, REQUEST)
  end)
end

function M.failed_in(artifact)
  return rows_of(artifact.failed_in, nil, function(row) return { phase = row.phase, count = row.n } end)
end

local BY_STATUS <const> = { __order = { "status", "count", "redirectingMs", "followingMs" } }

--- Redirects by their status: what the leg that was redirected took in all, and the one after it.
function M.redirect_statuses(artifact)
  return rows_of(artifact.by_status, nil, function(row)
    return setmetatable({
      status = row.status, count = row.n, redirectingMs = ms(row.leg_ns), followingMs = ms(row.next_ns),
    }, BY_STATUS)
  end)
end

local REDIRECT <const> = { __order = {
  "startedAt", "status", "from", "to", "redirectingMs", "followingMs", "requestMs", "finalStatus",
} }

function M.redirects(artifact, limit)
  return rows_of(artifact.redirects, limit, function(row)
    return setmetatable({
      startedAt = numbers.iso(artifact.started_unix_ms + row.at // 1000000), status = row.status, from = row.from, to = row.to,
      redirectingMs = ms(row.leg_ns), followingMs = ms(row.next_ns), requestMs = ms(row.request_ns), finalStatus = row.final_status,
    }, REDIRECT)
  end)
end

-- What the runtime's payloads hold; a member that no event could show is absent.
local function payloads(told)
  return {
    status = told.status, connectionIds = told.connections, redirectUrls = told.redirects,
    queryRedacted = told.query ~= nil and not told.query or nil,
  }
end

local ORDER <const> = { __order = {
  "processId", "startedAt", "duration", "requestsStarted", "requestsEnded", "requestsFailed", "statusErrors", "requestsRedirected",
  "inFlight", "p50Ms", "p95Ms", "maxMs", "parts", "hosts", "failedIn", "redirectsByStatus", "slowest", "payloads", "notes", "cost",
} }

local function totals(artifact, into)
  into.requestsStarted, into.requestsEnded, into.requestsFailed = artifact.started, artifact.ended, artifact.failed
  into.statusErrors, into.requestsRedirected, into.inFlight = artifact.status_errors, artifact.redirected, artifact.n_in_flight
  into.p50Ms, into.p95Ms = ms(artifact.total.p50), ms(artifact.total.p95)
  into.maxMs = artifact.total.n > 0 and ms(artifact.total.max) or nil
  into.parts, into.failedIn, into.redirectsByStatus = M.parts(artifact), M.failed_in(artifact), M.redirect_statuses(artifact)
  into.payloads, into.notes = payloads(artifact.told), json.array({ table.unpack(artifact.notes) })
  return setmetatable(into, ORDER)
end

--- HttpPhasesSnapshot.
---@param detail boolean
function M.snapshot(artifact, detail)
  return totals(artifact, {
    processId = artifact.process_id, startedAt = numbers.iso(artifact.started_unix_ms), duration = numbers.timespan(artifact.duration_ms),
    hosts = M.hosts(artifact, detail and M.INLINE_ALL or M.INLINE_HOSTS),
    slowest = M.requests(artifact, artifact.slowest, detail and M.INLINE_ALL or M.INLINE_SLOWEST), cost = artifact.cost,
  })
end

--- HttpPhasesSummaryView.
function M.summary(artifact, limit) return totals(artifact, { hosts = M.hosts(artifact, limit) }) end

--- One sentence.
function M.sentence(artifact, source)
  local what = source.path and "the recording" or ("process %d"):format(artifact.process_id)
  local words, top = {}, artifact.parts[1]
  if artifact.total.n > 0 then words[1] = (", p95 %.1f ms"):format(artifact.total.p95 / 1e6) end
  if top and top.kind ~= "setup" then words[#words + 1] = (", most of the time in %s (%.0f %%)"):format(top.name, 100 * top.share) end
  if artifact.failed > 0 then
    local places = {}
    for i = 1, math.min(3, #artifact.failed_in) do places[i] = ("%s %d"):format(artifact.failed_in[i].phase, artifact.failed_in[i].n) end
    words[#words + 1] = (", %d failed (%s)"):format(artifact.failed, table.concat(places, ", "))
  end
  return ("%d outgoing requests of %s ended over %s%s."):format(artifact.ended, what, numbers.span(artifact.duration_ms),
    table.concat(words))
end

return M
