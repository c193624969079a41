-- SPDX-License-Identifier: MIT
-- collect_events(kind="http-phases") over recordings of known outgoing requests (tests/data/recordings/README.md), and its views.
local json = require("lunette.json")
local kit = require("support.framework_kit")
local recorded = require("support.recorded")
local registered = require("lunette.view")
local waits = require("support.waits_kit")
require("tools.query_snapshot") -- announces what hints may ask of it

local HANDLE <const> = "http-phases-snapshot"
local RECORDINGS <const> = { http = 10, ["net9-http"] = 5, ["net8-http"] = 5 } -- name -> plain requests; the others are the same
local DELAY_MS <const>, LEG_MS <const>, QUEUE_MS <const> = 150, 60, 80
local VIEWS <const> = { "summary", "slowest", "byHost", "byPhase", "redirects", "failures", "inFlight" }

for _, name in ipairs(VIEWS) do registered.register(require("views.http-phases-snapshot." .. name)) end

local captures, views = {}, {} -- each recording is collected once, and each view of it asked for once

local function collect(name)
  captures[name] = captures[name] or recorded.collect("http-phases", name)
  return captures[name].data.httpPhases, captures[name]
end

local function view(envelope, name, more)
  local key = envelope.handle .. name .. (more and more.topN or "")
  views[key] = views[key] or recorded.view(envelope, HANDLE, name, more)
  return views[key]
end

local function part(list, name)
  for _, p in ipairs(list) do if p.name == name then return p end end
  return nil
end

-- The requests to a path, in the order in which they began.
local function requests_to(envelope, path)
  local found = {}
  for _, request in ipairs(view(envelope, "slowest", { topN = 100 }).requests) do
    if request.url:find(path, 1, true) then found[#found + 1] = request end
  end
  table.sort(found, function(a, b) return a.startedAt < b.startedAt end)
  return found
end

local function sum(leg)
  local total = 0
  for _, p in ipairs(leg.parts) do if p.kind ~= "setup" then total = total + p.durationMs end end
  return total
end

describe("collect_events http-phases, recorded", function()
  for name, plain in pairs(RECORDINGS) do
    it("follows every request to its end: " .. name, function()
      local data = collect(name)
      local n = plain + 27
      assert.same({ n, n, 6, 3, 5, 0 }, { data.requestsStarted, data.requestsEnded, data.requestsFailed, data.statusErrors,
        data.requestsRedirected, data.inFlight })
      assert.same({ n + 1, n - 1, n - 6, 2, 11 }, { part(data.parts, "requestHeaders").count, part(data.parts, "responseHeaders").count,
        part(data.parts, "responseContent").count, part(data.parts, "requestContent").count, part(data.parts, "queue").count })
      assert.same({ 8, 8, 3 }, { part(data.parts, "dns").count, part(data.parts, "connect").count, part(data.parts, "tls").count })
      assert.same({ 2, 2 }, { part(data.parts, "connect").failed, part(data.parts, "tls").failed })
    end)

    it("fills the time of every request and leg once: " .. name, function()
      local data, envelope = collect(name)
      local shares = 0
      for _, p in ipairs(data.parts) do if p.kind ~= "setup" then shares = shares + p.share end end
      assert.is_true(math.abs(shares - 1) < 0.002, "shares: " .. shares)
      for _, request in ipairs(view(envelope, "slowest", { topN = 100 }).requests) do
        local legs = 0
        for _, leg in ipairs(request.legs) do
          legs = legs + leg.durationMs
          assert.is_true(math.abs(sum(leg) - leg.durationMs) < 0.05, json.encode(leg))
        end
        assert.is_true(math.abs(legs - request.durationMs) < 0.01)
      end
    end)

    it("tells redirects of each code with both legs and the new URL: " .. name, function()
      local _, envelope = collect(name)
      local payload = view(envelope, "redirects")
      assert.same({ 5, 5 }, { payload.total, payload.returned })
      local codes = {}
      for i, row in ipairs(payload.byStatus) do
        codes[i] = row.status
        assert.is_true(row.count == 1 and row.redirectingMs >= LEG_MS and row.followingMs > 0)
      end
      assert.same({ 301, 302, 303, 307, 308 }, codes)
      for _, row in ipairs(payload.redirects) do
        assert.matches("^http://localhost:%d+/redirect/" .. row.status .. "%?", row.from)
        assert.matches("^http://localhost:%d+/landed%?", row.to)
        assert.equal(200, row.finalStatus)
        assert.is_true(math.abs(row.redirectingMs + row.followingMs - row.requestMs) < 0.01)
      end
    end)

    it("tells failed requests with their phase and the cause: " .. name, function()
      local data, envelope = collect(name)
      assert.same({ { phase = "connect", count = 2 }, { phase = "tls", count = 2 }, { phase = "waitForResponse", count = 2 } },
        data.failedIn)
      local payload = view(envelope, "failures")
      assert.same({ 6, 6 }, { payload.total, payload.returned })
      local by_phase = {}
      for _, request in ipairs(payload.requests) do
        assert.equal("failed", request.outcome)
        assert.is_nil(request.status)
        by_phase[request.failedIn] = request
      end
      assert.same({ "ConnectionRefused" }, { by_phase.connect.cause })
      assert.matches("Connection refused", by_phase.connect.error)
      assert.matches("certificate is invalid", by_phase.tls.cause)
      assert.matches("SSL connection could not be established", by_phase.tls.error)
      assert.matches("canceled", by_phase.waitForResponse.error)
      assert.matches("/hang", by_phase.waitForResponse.url, 1, true)
      assert.is_true(part(by_phase.tls.legs[1].parts, "tls").failed)
    end)

    it("shows where slow answers, slow contents and waits for a connection spent their time: " .. name, function()
      local _, envelope = collect(name)
      local headers, queued = {}, {}
      for _, request in ipairs(requests_to(envelope, "/headers")) do
        local list = request.legs[1].newConnection == false and part(request.legs[1].parts, "queue") and queued or headers
        list[#list + 1] = request
      end
      assert.same({ 2, 3 }, { #headers, #queued })
      for i = 1, 2 do
        assert.equal("waitForResponse", headers[i].slowestPart)
        assert.is_true(part(headers[i].legs[1].parts, "waitForResponse").durationMs >= DELAY_MS - 1)
      end
      local waited = {}
      for i, request in ipairs(queued) do waited[i] = part(request.legs[1].parts, "queue").durationMs end
      table.sort(waited)
      for i, wait in ipairs(waited) do assert.is_true(wait >= i * QUEUE_MS - 10, i .. ": " .. wait) end
      for _, request in ipairs(requests_to(envelope, "/content")) do
        assert.same({ "responseContent", "ok", 200 }, { request.slowestPart, request.outcome, request.status })
        assert.is_true(part(request.legs[1].parts, "responseContent").durationMs >= DELAY_MS - 1)
      end
      for _, request in ipairs(requests_to(envelope, "/status/503")) do
        assert.same({ "statusError", 503 }, { request.outcome, request.status })
      end
    end)

    it("repeats none of the secrets in user info, paths, queries and redirects: " .. name, function()
      local _, envelope = collect(name)
      local text = json.encode(recorded.collect("http-phases", name, { depth = "Detail" }))
      for _, one in ipairs(VIEWS) do text = text .. json.encode(view(envelope, one, one ~= "byPhase" and { topN = 100 } or nil)) end
      assert.is_nil(text:find("S3cret"), text:sub(math.max(1, (text:find("S3cret") or 1) - 60), (text:find("S3cret") or 1) + 20))
      assert.is_nil(text:find("eyJhbGci", 1, true))
      assert.is_nil(text:find("svc:", 1, true))
    end)
  end

  it("tells what the payloads of a runtime hold: queries are redacted from .NET 9 on", function()
    assert.same({ status = true, connectionIds = true, redirectUrls = true, queryRedacted = true }, collect("http").payloads)
    assert.same({ status = true, connectionIds = true, redirectUrls = true, queryRedacted = true }, collect("net9-http").payloads)
    assert.same({ status = true, connectionIds = true, redirectUrls = true }, collect("net8-http").payloads)
  end)

  it("reads the path of each request's activity", function()
    local _, envelope = collect("net9-http")
    local seen = {}
    for _, request in ipairs(view(envelope, "slowest", { topN = 100 }).requests) do
      assert.matches("^//1/%d+/$", request.activityPath)
      assert.is_nil(seen[request.activityPath])
      seen[request.activityPath] = true
    end
  end)

  it("knows which request made its connection", function()
    local _, envelope = collect("net9-http")
    local plain = requests_to(envelope, "/plain/")
    assert.same({ 5, true, false }, { #plain, plain[1].legs[1].newConnection, plain[2].legs[1].newConnection })
    assert.truthy(part(plain[1].legs[1].parts, "dns") and part(plain[1].legs[1].parts, "connect"))
    assert.is_nil(part(plain[2].legs[1].parts, "dns"))
    assert.equal(plain[1].legs[1].connectionId, plain[2].legs[1].connectionId)
  end)

  it("ranks hosts by the time of their requests, and says which part took most of it", function()
    local _, envelope = collect("http")
    local payload = view(envelope, "byHost")
    assert.same({ 4, 4 }, { payload.total, payload.returned })
    local by = {}
    for _, host in ipairs(payload.hosts) do by[host.authority:match("^%a+") .. host.count] = host end
    assert.same({ 2, 3, 5 }, { by.http31.failed, by.http31.statusErrors, by.http31.redirects })
    assert.same({ 2, 0, "queue" }, { by.https4.failed, by.https4.statusErrors, by.https4.slowestPart })
    assert.equal(1, view(envelope, "byHost", { topN = 1 }).returned)
  end)

  it("gives what came before a stream broke off, and lists what had not ended then", function()
    waits.cut("http", 60000, function(path)
      local envelope = kit.call(require("tools.collect_events"), { kind = "http-phases", traceFilePath = path },
        setmetatable({ transport = "cli" }, { __index = kit.ctx() }))
      local data = envelope.data.httpPhases
      assert.is_true(data.requestsEnded > 0 and data.requestsEnded + data.inFlight == data.requestsStarted and data.requestsStarted < 37)
      assert.matches("Incomplete: ", table.concat(data.notes, "\n"), 1, true)
    end)
  end)

  it("says that nothing can be put together without activity ids", function()
    local data = collect("http-no-ids")
    assert.same({ 28, 0, {}, {} }, { data.requestsStarted, data.requestsEnded, data.parts, data.slowest })
    assert.matches("NoActivityId: .*TplEventSource was off", table.concat(data.notes, "\n"))
  end)

  it("says of a recording without requests that it may not have been recorded", function()
    local data, envelope = collect("quiet")
    assert.same({ 0, 0, {} }, { data.requestsStarted, data.requestsEnded, data.parts })
    assert.matches("NotInRecording", table.concat(data.notes, "\n"), 1, true)
    assert.equal("networking", envelope.hints[1].suggestedArguments.kind)
    for _, name in ipairs(VIEWS) do assert.is_table(view(envelope, name)) end
  end)

  it("sends its reader to the failures first, and to the pool when that is where the time went", function()
    local _, envelope = collect("net9-http")
    assert.same({ "failures", "high" }, { envelope.hints[1].suggestedArguments.view, envelope.hints[1].priority })
    assert.equal("networking", envelope.hints[2].suggestedArguments.kind)
    assert.equal("http-phases.by-part", envelope.signals[1].signal)
    assert.is_nil(select(2, collect("http")).signals, "49 % is no majority")
    assert.is_true(#json.encode(envelope) < 16384)
  end)
end)
