-- SPDX-License-Identifier: MIT
-- collect_events kind=kestrel over a service with TLS that is asked a known number of times, on every runtime, live and from the recording.
local during = require("during")
local h = require("harness")

local RUNTIMES <const> = { "net10.0", "net9.0", "net8.0" }
local N <const> = 4
local SECONDS <const> = 6

local COUNTS <const> = {
  "connectionsStarted", "connectionsStopped", "connectionsRejected", "requestsStarted", "requestsStopped", "tlsHandshakesStarted",
  "tlsHandshakesStopped", "tlsHandshakesFailed",
}

local function counts(k)
  local list = {}
  for i, name in ipairs(COUNTS) do list[i] = k[name] end
  return list
end

local function operation(k, method, path, version)
  local op = h.find(k.byOperation, { method = method, path = path, httpVersion = version or "HTTP/1.1" })
  return op and op.count or 0
end

local function by_operation(k, did)
  h.eq({ did.get_ok + did.tls_ok, did.post_ok, did.tls_h2, did.slow, did.missing, did.busy, did.failed }, {
    operation(k, "GET", "/ok"), operation(k, "POST", "/ok"), operation(k, "GET", "/ok", "HTTP/2"), operation(k, "GET", "/slow"),
    operation(k, "GET", "/missing"), operation(k, "GET", "/busy"), operation(k, "GET", "/fail"),
  }, "by operation")
  h.eq({ 2, 1 }, { operation(k, "GET", "/reset/password=<redacted:sensitive>"), operation(k, "GET", "/token/<redacted:sensitive>") },
    "paths with secrets")
end

local function known_load(skip)
  during.each_runtime(RUNTIMES, skip, function(runtime)
    local target <close> = h.target(runtime, "serve", N, { go = false })
    local live, recorded, did = during.live_and_recorded("kestrel", target, SECONDS)
    h.eq({
      did.connections, did.connections - did.hanging, 0, did.requests, did.answered, did.handshakes, did.handshakes, did.handshakes_failed,
    }, counts(live), runtime)
    by_operation(live, did)
    h.eq({ "Tls12", "Tls13" }, live.tlsProtocols, runtime .. ": protocols")
    h.ok(live.requestMax >= "00:00:00.0" .. did.slow_ms, runtime .. ": the slow one: " .. live.requestMax)
    h.ok(live.requestP50 <= live.requestP95, runtime .. ": percentiles")
    h.ok(live.tlsHandshakeMax > "00:00:00" and live.connectionDurationMax > "00:00:00.0" .. did.slow_ms, runtime .. ": times")
    h.eq(40, h.json.decode(live.configurationJson).Limits.MaxConcurrentConnections, runtime .. ": options")
    h.ok(#live.queuePoints >= 2, runtime .. ": the queues over time")
    local held = h.ok(h.find(live.counters, { name = "current-connections" }), "current-connections").value
    h.eq(did.hanging, held, runtime .. ": the connections that hang")
    h.eq("", during.notes(live), runtime .. ": notes")
    h.eq(0, live.cost.eventsLost, "nothing lost")
    h.eq(counts(live), counts(recorded), runtime .. ": counts of the recording")
    for _, name in ipairs { "byOperation", "tlsProtocols", "configurationJson", "requestP95", "requestMax", "tlsHandshakeP95" } do
      h.eq(live[name], recorded[name], runtime .. ": " .. name)
    end
    h.eq(nil, h.json.encode(live):find("S3cret", 1, true), "no secret")
    h.no_session(target)
  end)
end

local function no_traffic(skip)
  during.each_runtime(RUNTIMES, skip, function(runtime)
    local target <close> = h.target(runtime, "serve", N, { go = false })
    local envelope = h.call("collect_events", { kind = "kestrel", processId = target.pid, durationSeconds = 3 })
    h.ok(not envelope.error, runtime .. ": it succeeds")
    local k = envelope.data.kestrel
    h.eq({ 0, 0, 0, 0, 0, 0, 0, 0 }, counts(k), runtime)
    h.eq({ 0, "00:00:00", "00:00:00" }, { #k.byOperation, k.requestP95, k.tlsHandshakeMax }, runtime .. ": empty")
    h.ok(during.notes(k):find("NoTraffic", 1, true), runtime .. ": " .. during.notes(k))
    h.eq(nil, k.configurationJson, "not inline at Summary")
  end)
end

local function views(skip)
  local built, why = h.build_target("net10.0")
  if not built then skip(why) end
  local server <close> = h.server()
  local target <close> = h.target("net10.0", "serve", N, { go = false })
  local envelope, did = during.both(target, function()
    return h.ok(server:call("collect_events", { kind = "kestrel", processId = target.pid, durationSeconds = SECONDS }))
  end, during.go)
  local function view(name) return h.ok(server:call("query_snapshot", { handle = envelope.handle, view = name })).data.payload end
  h.eq(did.handshakes_failed, view("tls").tlsHandshakesFailed, "tls")
  h.eq(40, h.json.decode(view("config").configurationJson).Limits.MaxConcurrentConnections, "config")
  h.ok(#view("queues").points >= 2, "queues")
  by_operation({ byOperation = view("byOperation").operations }, did)
  h.eq(did.requests, view("summary").requestsStarted, "summary")
  h.eq(nil, (h.json.encode(envelope) .. server:log()):find("S3cret", 1, true), "no secret")
end

local function another_process(skip)
  local built, why = h.build_target("net10.0")
  if not built then skip(why) end
  local target <close> = h.target("net10.0", "idle")
  local envelope = h.call("collect_events", { kind = "kestrel", processId = target.pid, durationSeconds = 2 })
  h.ok(during.notes(envelope.data.kestrel):find("ProviderSilent", 1, true), "says that there is no Kestrel")
end

return {
  { "a known load, on every runtime, live and recorded", known_load },
  { "no traffic, views over HTTP, a process without a server", h.side_by_side(no_traffic, views, another_process) },
}
