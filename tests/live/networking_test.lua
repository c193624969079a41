-- SPDX-License-Identifier: MIT
-- collect_events kinds networking and http-phases over an HttpClient program that makes a known number of requests of every fate.
local during = require("during")
local h = require("harness")

local RUNTIMES <const> = { "net10.0", "net9.0", "net8.0", "aot" }
local N <const> = 5 -- plain requests
local OTHERS <const> = 27 -- requests of all other fates
local SECONDS <const> = 15 -- the work takes 4 at its first time, of a target alone
local INTERVALS_MS <const> = 2500 -- the counters come by the clock, once a second: the last reading is of after the work
local TOLD_BY <const> = { networking = { "summary", "byOperation", "queue", "tls", "dns" },
  ["http-phases"] = { "summary", "slowest", "byHost", "byPhase", "redirects", "failures", "inFlight" } }

local function ms(timespan)
  local hours, minutes, seconds = timespan:match("^(%d+):(%d+):([%d.]+)$")
  return (hours * 3600 + minutes * 60 + seconds) * 1000
end

local function part(list, name) return h.ok(h.find(list, { name = name }), "part " .. name) end

local function networking(data, did, what)
  h.eq({ did.requests, did.requests, did.failed }, { data.httpRequestsStarted, data.httpRequestsStopped, data.httpRequestsFailed }, what)
  h.eq({ 9, 9, did.dns_failed }, { data.dnsLookupsStarted, data.dnsLookupsStopped, data.dnsLookupsFailed }, what .. ": lookups")
  h.eq({ 3, 3, did.tls_failed, { "Tls13" } },
    { data.tlsHandshakesStarted, data.tlsHandshakesStopped, data.tlsHandshakesFailed, data.tlsProtocols }, what .. ": handshakes")
  h.eq({ 8, 8, did.refused }, { data.socketConnectsStarted, data.socketConnectsStopped, data.socketConnectsFailed },
    what .. ": connects")
  h.eq({ dns = "measured", http = "measured", queue = "measured", tls = "measured" }, data.latencyAvailability, what)
  local http = data.correlation.byKind.http
  h.eq({ did.requests, did.failed, did.status_errors, 0 },
    { http.paired, http.failedSamples, http.statusErrorResponses, http.uncorrelatable }, what .. ": population")
  h.eq({ true, 0 }, { data.captureQuality.completed, data.captureQuality.transportLoss }, what .. ": quality")
  h.eq(4, #data.byOperation, what .. ": operations")
  local plain = h.ok(h.find(data.byOperation, { authority = ("http://localhost:%d"):format(did.port) }), what .. ": the plain server")
  h.eq({ did.requests - 6, did.cancelled }, { plain.count, plain.failed }, what .. ": requests to the plain server")
  local secure = h.ok(h.find(data.byOperation, { authority = ("https://localhost:%d"):format(did.tls_port) }), what .. ": the TLS server")
  h.eq({ 4, did.tls_failed }, { secure.count, secure.failed }, what .. ": requests to the TLS server")
  h.ok(http.queueSamples >= 3 and ms(data.timeInQueueMax) >= did.queue_ms, what .. ": waits for a connection: " .. data.timeInQueueMax)
  h.ok(ms(data.httpRequestMax) >= did.delay_ms - 2, what .. ": the slowest request: " .. data.httpRequestMax)
end

local COUNTED <const> = { -- counters that only grow: the last reading is the whole
  ["requests-started"] = "requests", ["requests-failed"] = "failed", ["failed-tls-handshakes"] = "tls_failed",
}

local function counters(data, did, what)
  for name, of in pairs(COUNTED) do
    h.eq(did[of], h.ok(h.find(data.counters, { name = name }), what .. ": counter " .. name).value, what .. ": " .. name)
  end
end

local function phases(data, did, what, runtime)
  h.eq({ did.requests, did.requests, did.failed, did.status_errors, did.redirects, 0 }, { data.requestsStarted, data.requestsEnded,
    data.requestsFailed, data.statusErrors, data.requestsRedirected, data.inFlight }, what)
  h.eq({ { phase = "connect", count = 2 }, { phase = "tls", count = 2 }, { phase = "waitForResponse", count = 2 } }, data.failedIn, what)
  local codes = {}
  for i, row in ipairs(data.redirectsByStatus) do
    codes[i] = row.status
    h.ok(row.count == 1 and row.redirectingMs >= did.leg_ms - 2 and row.followingMs > 0, what .. ": " .. h.json.encode(row))
  end
  h.eq({ 301, 302, 303, 307, 308 }, codes, what .. ": redirects")
  h.eq({ 8, 8, 3 }, { part(data.parts, "dns").count, part(data.parts, "connect").count, part(data.parts, "tls").count }, what)
  h.ok(part(data.parts, "waitForResponse").count >= did.requests - 4 and part(data.parts, "queue").count > 0, what .. ": parts")
  local shares, total = 0, 0
  for _, p in ipairs(data.parts) do
    if p.kind ~= "setup" then shares, total = shares + p.share, total + p.totalMs end
  end
  -- two answers and two contents that are late by delay_ms, five redirects by leg_ms, three answers by queue_ms: at least
  h.ok(total >= 4 * did.delay_ms + 5 * did.leg_ms + 3 * did.queue_ms - 20, what .. ": the time of all requests: " .. total)
  h.near(1, 0.002, shares, what .. ": phases and waits fill the requests")
  h.eq(runtime ~= "net8.0" or nil, data.payloads.queryRedacted, what .. ": queries")
  for _, request in ipairs(data.slowest) do
    h.ok((request.activityPath or ""):find("^//1/%d+/$"), what .. ": a path: " .. tostring(request.activityPath))
  end
end

local function no_secret(what, value)
  local text = type(value) == "string" and value or h.json.encode(value)
  local at = text:find("S3cret", 1, true) or text:find("eyJhbGci", 1, true)
  h.ok(not at, what .. " repeats a secret: " .. text:sub(math.max(1, (at or 1) - 40), (at or 1) + 40))
end

-- Both kinds at once over one round of work: neither disturbs the other.
local function known_requests(skip)
  during.each_runtime(RUNTIMES, skip, function(runtime)
    local target <close> = h.target(runtime, "http", N, { go = false })
    local before, did, begun = during.sessions(target), nil, false
    local function work() -- the first to come starts it, when both sessions are open
      h.wait_for("both sessions", h.START_MS, function() return begun or during.sessions(target) >= before + 2 end)
      if begun then return h.wait_for("the work", h.START_MS, function() return did end) end
      begun = true
      h.loop.sleep_ms(500) -- the thread of a session is there a moment before all of its events are on
      local done = during.go(target)
      h.loop.sleep_ms(INTERVALS_MS)
      did = done
      return did
    end
    local function windows(module) return function() return { during.live_and_recorded(module, target, SECONDS, work) } end end
    local net, http = table.unpack(h.together { windows("networking"), windows("http_phases") })
    h.eq(N + OTHERS, did.requests, runtime .. ": the target's own count")
    for i, how in ipairs { " live", " recorded" } do
      networking(net[i], did, runtime .. how)
      counters(net[i], did, runtime .. how)
      phases(http[i], did, runtime .. how, runtime)
      no_secret(runtime .. how .. " networking", net[i])
      no_secret(runtime .. how .. " http-phases", http[i])
    end
    h.eq(net[1].byOperation, net[2].byOperation, runtime .. ": operations of the recording")
    h.eq(http[1].parts, http[2].parts, runtime .. ": phases of the recording")
    h.ok(net[1].cost.events > 0 and net[1].cost.eventsLost == 0 and http[1].cost.eventsLost == 0, runtime .. ": the price is said")
    h.no_session(target)
  end)
end

local function no_secret_of(kind, server)
  local target <close> = h.target("net8.0", "http", 1, { go = false }) -- the runtime whose events have all of them
  local envelope = during.both(target, function()
    return assert(server:call("collect_events", { kind = kind, processId = target.pid, durationSeconds = 10, depth = "Detail" }))
  end, during.go)
  h.ok(not envelope.error, kind .. ": " .. h.json.encode(envelope.error or {}))
  local data = envelope.data.networking or envelope.data.httpPhases
  h.ok((data.httpRequestsStarted or data.requestsEnded) > 20, kind .. " saw the requests")
  no_secret(kind, envelope)
  for _, view in ipairs(TOLD_BY[kind]) do
    local answer = assert(server:call("query_snapshot", { handle = envelope.handle, view = view }))
    h.ok(not answer.error, kind .. " " .. view)
    no_secret(kind .. " " .. view, answer)
  end
end

-- Nothing that the server answers, keeps or logs has a secret of the addresses in it.
local function no_secret_anywhere(skip)
  local built, why = h.build_target("net8.0")
  if not built then skip(why) end
  local server <close> = h.server()
  h.together {
    function() no_secret_of("networking", server) return true end,
    function() no_secret_of("http-phases", server) return true end,
  }
  no_secret("the log", server:log())
end

return {
  { "networking and http-phases tell what an HttpClient program did, live and recorded", known_requests },
  { "no secret of an address is in an answer, a view or the log", no_secret_anywhere },
}
