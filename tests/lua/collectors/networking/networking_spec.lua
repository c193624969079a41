-- SPDX-License-Identifier: MIT
-- collect_events(kind="networking") over recordings of known outgoing traffic (tests/data/recordings/README.md), its views and hints.
local artifacts = require("collectors.networking.artifact")
local json = require("lunette.json")
local kit = require("support.framework_kit")
local recorded = require("support.recorded")
local views = require("lunette.view")
local waits = require("support.waits_kit")
local wire = require("collectors.networking.wire")
require("tools.query_snapshot") -- announces what hints may ask of it

local HANDLE <const> = "networking-snapshot"
local RECORDINGS <const> = { http = 10, ["net9-http"] = 5, ["net8-http"] = 5 } -- name -> plain requests; the others are the same

for _, name in ipairs { "summary", "byOperation", "queue", "tls", "dns" } do
  views.register(require("views.networking-snapshot." .. name))
end

local captures = {} -- each recording is collected once

local function collect(name, more)
  local key = name .. (more and more.depth or "")
  captures[key] = captures[key] or recorded.collect("networking", name, more)
  return captures[key].data.networking, captures[key]
end

local function ms(timespan)
  local h, m, s = timespan:match("^(%d+):(%d+):([%d.]+)$")
  return (h * 3600 + m * 60 + s) * 1000
end

local function hint(envelope, view_or_kind)
  for _, h in ipairs(envelope.hints) do
    if h.suggestedArguments.view == view_or_kind or h.suggestedArguments.kind == view_or_kind then return h end
  end
  return nil
end

describe("collect_events networking, recorded", function()
  for name, plain in pairs(RECORDINGS) do
    it("counts requests, lookups, handshakes as a client and connects: " .. name, function()
      local data = collect(name)
      local n = plain + 27
      assert.same({ n, n, 6 }, { data.httpRequestsStarted, data.httpRequestsStopped, data.httpRequestsFailed })
      assert.same({ 11, 4 }, { data.httpRequestsLeftQueue, data.httpConnectionsEstablished })
      assert.same({ 9, 9, 1 }, { data.dnsLookupsStarted, data.dnsLookupsStopped, data.dnsLookupsFailed })
      assert.same({ 3, 3, 2, { "Tls13" } }, { data.tlsHandshakesStarted, data.tlsHandshakesStopped, data.tlsHandshakesFailed,
        data.tlsProtocols })
      assert.same({ 8, 8, 2 }, { data.socketConnectsStarted, data.socketConnectsStopped, data.socketConnectsFailed })
    end)

    it("pairs all of them, failed ones too, and says of what population: " .. name, function()
      local data = collect(name)
      local n = plain + 27
      local by = data.correlation.byKind
      assert.same({ 2, n, n, 6, n - 6, 3, 0 }, { by.http.populationVersion, by.http.paired, by.http.percentileSamples,
        by.http.failedSamples, by.http.noObservedFailureSamples, by.http.statusErrorResponses, by.http.uncorrelatable })
      assert.same({ 11, 11, 0 }, { by.http.queueSamples, by.http.queuePercentileSamples, by.http.queueRejectedSamples })
      assert.same({ 9, 1, 8 }, { by.dns.paired, by.dns.failedSamples, by.dns.noObservedFailureSamples })
      assert.same({ 3, 2, 1 }, { by.tls.paired, by.tls.failedSamples, by.tls.noObservedFailureSamples })
      assert.is_nil(by.dns.statusErrorResponses)
      assert.same({ http = "measured", queue = "measured", dns = "measured", tls = "measured" }, data.latencyAvailability)
      assert.same({ true, 0, 0 }, { data.captureQuality.completed, data.captureQuality.transportLoss,
        data.captureQuality.payloadParsingErrors })
    end)

    it("groups by scheme, host and port, most requests first: " .. name, function()
      local rows = collect(name).byOperation
      assert.same({ plain + 21, 4, 1, 1 }, { rows[1].count, rows[2].count, rows[3].count, rows[4].count })
      assert.same({ 2, 2, 1, 1 }, { rows[1].failed, rows[2].failed, rows[3].failed, rows[4].failed })
      assert.matches("^http://localhost:%d+$", rows[1].authority)
      assert.matches("^https://localhost:%d+$", rows[2].authority)
      for _, row in ipairs(rows) do
        assert.same({ row.count, "measured", "(unknown)" }, { row.percentileSamples, row.availability, row.method })
        assert.is_true(ms(row.p50) <= ms(row.p95) and ms(row.p95) <= ms(row.max) and ms(row.p50) > 0)
      end
    end)
  end

  it("has the latencies that the server made, and the waits for the one connection", function()
    local data = collect("net9-http")
    assert.is_true(ms(data.httpRequestMax) >= 4 * 80) -- four requests of 80 ms after one another
    assert.is_true(ms(data.timeInQueueMax) >= 3 * 80)
    assert.is_true(ms(data.timeInQueueP50) <= ms(data.timeInQueueP95))
    assert.is_true(ms(data.dnsMax) > 0 and ms(data.tlsMax) > ms(data.dnsP50))
  end)

  it("reads the counters of all four sources, the headline at Summary and all at Detail", function()
    local short, long = collect("http").counters, collect("http", { depth = "Detail" }).counters
    local function value(rows, name)
      for _, row in ipairs(rows) do if row.name == name then return row.value end end
      return nil
    end
    for counter, last in pairs {
      ["requests-failed"] = 6, ["requests-started"] = 37, ["dns-lookups-requested"] = 9, ["failed-tls-handshakes"] = 2,
      ["outgoing-connections-established"] = 6, ["current-requests"] = 0,
    } do
      assert.equal(last, value(long, counter), counter)
    end
    assert.equal(2, value(short, "failed-tls-handshakes"))
    assert.is_nil(value(short, "requests-started"))
    assert.is_nil(value(long, "http30-requests-queue-duration"), "nobody measured it, so there is no value")
    assert.is_true(#short <= 12 and #long > #short)
  end)

  it("counts without activity ids, has no latency then, and says why", function()
    local data, envelope = collect("http-no-ids")
    assert.same({ 28, 28, 6 }, { data.httpRequestsStarted, data.httpRequestsStopped, data.httpRequestsFailed })
    assert.same({ http = "uncorrelatable", queue = "measured", dns = "uncorrelatable", tls = "uncorrelatable" },
      data.latencyAvailability)
    assert.same({ 0, 0, 56, 3 }, { data.correlation.byKind.http.paired, data.correlation.byKind.http.percentileSamples,
      data.correlation.byKind.http.uncorrelatable, data.correlation.byKind.http.statusErrorResponses })
    assert.same({ "00:00:00", "uncorrelatable" }, { data.byOperation[1].p95, data.byOperation[1].availability })
    assert.matches("Uncorrelatable: the requests", table.concat(data.notes, "\n"), 1, true)
    assert.is_nil(envelope.signals)
  end)

  it("observes nothing in a recording without networking, and says that it may not have been recorded", function()
    local data, envelope = collect("quiet")
    assert.same({ http = "not-observed", queue = "not-observed", dns = "not-observed", tls = "not-observed" },
      data.latencyAvailability)
    assert.same({ 0, {}, {} }, { data.httpRequestsStarted, data.byOperation, data.counters })
    assert.matches("NotInRecording", table.concat(data.notes, "\n"), 1, true)
    assert.equal("summary", envelope.hints[1].suggestedArguments.view)
  end)

  it("carries the three blocks of quality in all five views", function()
    local data, envelope = collect("http")
    for _, name in ipairs { "summary", "byOperation", "queue", "tls", "dns" } do
      local payload = recorded.view(envelope, HANDLE, name)
      assert.same(data.latencyAvailability, payload.latencyAvailability, name)
      assert.same(data.correlation, payload.correlation, name)
      assert.same(data.captureQuality, payload.captureQuality, name)
    end
    local summary, one = recorded.view(envelope, HANDLE, "summary"), recorded.view(envelope, HANDLE, "byOperation", { topN = 1 })
    local tls, dns = recorded.view(envelope, HANDLE, "tls"), recorded.view(envelope, HANDLE, "dns")
    assert.same({ 37, 6, 4 }, { summary.httpRequestsStarted, summary.httpRequestsFailed, #summary.topOperations })
    assert.same({ 1, 31 }, { one.returned, one.operations[1].count })
    assert.equal(data.timeInQueueP95, recorded.view(envelope, HANDLE, "queue").timeInQueueP95)
    assert.same({ { "Tls13" }, 2, 9, data.dnsMax }, { tls.tlsProtocols, tls.tlsHandshakesFailed, dns.dnsLookupsStarted, dns.dnsMax })
  end)

  it("sends its reader to the queue, to the failed requests and to the phases", function()
    local _, envelope = collect("http")
    assert.equal("high", hint(envelope, "queue").priority)
    assert.equal("high", hint(envelope, "http-phases").priority)
    assert.truthy(hint(envelope, "tls"))
    assert.truthy(hint(envelope, "dns"))
  end)

  it("repeats none of the secrets in the addresses", function()
    for name in pairs(RECORDINGS) do
      local _, envelope = collect(name, { depth = "Detail" })
      local text = json.encode(envelope)
      for _, view in ipairs { "summary", "byOperation" } do text = text .. json.encode(recorded.view(envelope, HANDLE, view)) end
      assert.is_nil(text:find("S3cret"), name)
      assert.is_nil(text:find("eyJhbGci", 1, true), name)
    end
  end)

  it("gives what came before a stream broke off, and says that the window was not whole", function()
    waits.cut("http", 60000, function(path)
      local envelope = kit.call(require("tools.collect_events"), { kind = "networking", traceFilePath = path },
        setmetatable({ transport = "cli" }, { __index = kit.ctx() }))
      local data = envelope.data.networking
      assert.is_false(data.captureQuality.completed)
      assert.is_true(data.httpRequestsStarted > 0 and data.httpRequestsStarted < 37)
      assert.equal("measured", data.latencyAvailability.http)
      assert.matches("Incomplete: ", table.concat(data.notes, "\n"), 1, true)
    end)
  end)

  it("answers within 16 KB", function()
    local _, envelope = collect("http")
    assert.is_true(#json.encode(envelope) < 16384)
  end)
end)

describe("collectors.networking.wire", function()
  it("leaves out a loss that is not known, and a status that the runtime does not tell", function()
    local family = { paired = 0, failed_pairs = 0, uncorrelatable = 0, availability = "incomplete" }
    local quality = wire.quality({
      http = family, dns = family, tls = family, queue = { samples = 0, rejected = 2, availability = "unavailable" }, lost = nil,
      ended_early = true, read_ms = 5, parsing_errors = 0,
    }, {})
    assert.is_nil(quality.captureQuality.transportLoss)
    assert.is_nil(quality.correlation.byKind.http.statusErrorResponses)
    assert.same({ false, "unavailable", 2 }, { quality.captureQuality.completed, quality.latencyAvailability.queue,
      quality.correlation.byKind.http.queueRejectedSamples })
  end)
end)

describe("collectors.networking.artifact", function()
  it("derives the availability from counts and quality, never from the latencies", function()
    assert.equal("measured", artifacts.availability(1, 2, 0, false))
    assert.equal("not-observed", artifacts.availability(0, 0, 0, true))
    assert.equal("incomplete", artifacts.availability(0, 0, 0, false))
    assert.equal("uncorrelatable", artifacts.availability(0, 4, 4, true))
    assert.equal("incomplete", artifacts.availability(0, 4, 0, true), "all are still in flight")
  end)
end)

describe("signal networking.time-in-queue", function()
  local queue = require("signals.networking_time_in_queue")
  local function window(n, mean_ms, p95, all_ms)
    return { queue = { time = { n = n, mean = mean_ms, p95 = p95 } }, http = { time = { n = 10, mean = all_ms / 10 * 1e6 } } }
  end

  it("says when waiting for a connection is most of the time", function()
    local found = queue.of(window(8, 100, 200, 1000), "H")[1]
    assert.same({ "networking.time-in-queue", 0.8, "queue", "H" }, { found.signal, found.salience,
      found.nextAction.suggestedArguments.view, found.buckets[1].handle })
  end)

  it("is silent when few waited, briefly, or for a small part", function()
    assert.same({}, queue.of(window(4, 100, 200, 450), "H"))
    assert.same({}, queue.of(window(8, 1, 2, 10), "H"))
    assert.same({}, queue.of(window(8, 10, 20, 1000), "H"))
    assert.same({}, queue.of({ queue = {}, http = {} }, "H"))
  end)
end)
