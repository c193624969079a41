-- SPDX-License-Identifier: MIT
-- Requests put together from made-up events: what older runtimes tell, proxies, retries, HTTP/2, ids without a path, caps.
local artifacts = require("collectors.http_phases.artifact")
local assemble = require("collectors.http_phases.assemble")
local clr = require("lunette.clr")
local heirs = require("collectors.http_phases.heirs")
local notes = require("collectors.http_phases.notes")
local parts = require("collectors.http_phases.parts")
local tally = require("collectors.http_phases.tally")
local wire = require("collectors.http_phases.wire")

local MS <const> = 1000000

-- Activity ids as EventSource writes them, for paths of small numbers; one above 255 stands behind an even number of small ones.
local function id(path, process_id)
  local bytes, half = {}, 0
  for i = 1, 12 do bytes[i] = 0 end
  local function put(value)
    local at = half // 2 + 1
    bytes[at] = bytes[at] | (half % 2 == 0 and value << 4 or value)
    half = half + 1
  end
  for number in path:gmatch("%d+") do
    local n = math.tointeger(tonumber(number))
    if n <= 10 then
      put(n)
    else
      put(0xC)
      if half % 2 == 1 then put(n >> 8) end
      put(n >> 4 & 0xF)
      put(n & 0xF)
    end
  end
  local sum = 0x599D99AD
  for i = 1, 12 do sum = sum + (bytes[i] << 8 * ((i - 1) % 4)) end
  sum = (sum & 0xFFFFFFFF) ~ (process_id or 4711)
  for i = 0, 3 do bytes[13 + i] = sum >> 8 * i & 0xFF end
  local hex = {}
  for i, b in ipairs(bytes) do hex[i] = ("%02x"):format(b) end
  local function group(...) -- the first three groups are little-endian
    local text = ""
    for _, i in ipairs { ... } do text = text .. hex[i] end
    return text
  end
  return table.concat({ group(4, 3, 2, 1), group(6, 5), group(8, 7), group(9, 10), group(11, 12, 13, 14, 15, 16) }, "-")
end

local function window()
  local w = { sums = tally.new() }
  w.assembly = assemble.new(function(request) w.sums:add(request) end)
  --- An event: kind, ms, activity, parent, its fields. Sizes are those of .NET 8.
  function w:on(kind, ms, a, r, fields)
    local sizes = { request_stop = 4, headers = 8 }
    local row = { t = math.floor(ms * MS), a = a, r = r, size = sizes[kind] or 0 }
    for name, value in pairs(fields or {}) do row[name] = value end
    self.assembly:add(kind, row)
    return self
  end
  function w:request(ms, a, r, path)
    return self:on("request", ms, a, r, { scheme = "http", host = "h", port = 80, pathAndQuery = path or "/" })
  end
  function w:done(end_ms) return artifacts.new(self.assembly, self.sums, (end_ms or 0) * MS) end
  return w
end

local function told(list)
  local out = {}
  for i, p in ipairs(list) do out[i] = ("%s %.0f"):format(p.name, p.ns / MS) end
  return out
end

local A <const>, HEADERS <const>, ANSWER <const>, BODY <const> = id("1/5"), id("1/5/1"), id("1/5/2"), id("1/5/3")

-- The phases of a request from `from` on: headers 1 ms, answer after 10 ms, content 5 ms.
local function exchange(w, from, a, ids)
  ids = ids or { HEADERS, ANSWER, BODY }
  return w:on("headers", from, ids[1], a, { connectionId = 7 }):on("headers_stop", from + 1, ids[1])
    :on("answer", from + 11, ids[2], a):on("answer_stop", from + 12, ids[2], nil, { statusCode = 200 })
    :on("body", from + 13, ids[3], a):on("body_stop", from + 18, ids[3])
end

describe("collectors.http_phases.assemble", function()
  it("makes ids that the decoder reads", function()
    assert.same({ "//1/5/", 4711 }, { clr.activity_path(A) })
    assert.equal("//1/5/300/2/", (clr.activity_path(id("1/5/300/2"))))
  end)

  it("puts phases and waits in order, and names waits by what they waited for", function()
    local w = window():request(0, A)
    w:on("left_queue", 6, A, nil, { timeOnQueueMilliseconds = 4 })
    exchange(w, 8, A):on("request_stop", 30, A, nil, { statusCode = 200 })
    local row = w:done().slowest[1]
    assert.same({ "beforeQueue 2", "queue 4", "beforeRequestHeaders 2", "requestHeaders 1", "waitForResponse 10", "responseHeaders 1",
      "beforeResponseContent 1", "responseContent 5", "beforeEnd 4" }, told(row.legs[1].parts))
    assert.same({ 30 * MS, 200, "waitForResponse", false, "//1/5/" }, { row.ns, row.status, row.slowest, row.failed, row.path })
  end)

  it("puts the making of a connection beside the queue, and knows whether the request got it", function()
    for _, mine in ipairs { true, false } do
      local w = window():request(0, A)
      w:on("lookup", 1, id("1/5/4"), A):on("lookup_stop", 3, id("1/5/4"))
      w:on("connect", 3, id("1/5/4/1"), A):on("connect_stop", 5, id("1/5/4/1"))
      w:on("handshake", 5, id("1/5/6"), A, { isServer = false }):on("handshake_stop", 9, id("1/5/6"))
      w:on("connected", 9, A, nil, { connectionId = mine and 7 or 8 }):on("left_queue", 10, A, nil, { timeOnQueueMilliseconds = 10 })
      exchange(w, 10, A):on("request_stop", 28, A, nil, { statusCode = 200 })
      local leg = w:done().slowest[1].legs[1]
      assert.same({ "queue 10", "requestHeaders 1", "waitForResponse 10", "responseHeaders 1", "beforeResponseContent 1",
        "responseContent 5", "dns 2", "connect 2", "tls 4" }, told(leg.parts))
      assert.same({ 7, mine }, { leg.connection, leg.made })
    end
  end)

  it("begins a leg with each redirect, also with the one to itself", function()
    local w = window():request(0, A, nil, "/a?x=1")
    w:on("headers", 1, HEADERS, A, { connectionId = 7 }):on("headers_stop", 2, HEADERS)
    w:on("answer", 40, ANSWER, A):on("answer_stop", 41, ANSWER, nil, { statusCode = 307 })
    w:on("redirect", 42, A, nil, { redirectUri = "http://u:planted@h2/b?y=planted" })
    exchange(w, 50, A, { id("1/5/7"), id("1/5/8"), id("1/5/9") }):on("request_stop", 70, A, nil, { statusCode = 200 })
    local artifact = w:done()
    local row, hop = artifact.slowest[1], artifact.redirects[1]
    assert.same({ 2, 1, 42 * MS, 28 * MS, 307, 200 },
      { #row.legs, row.redirects, row.legs[1].ns, row.legs[2].ns, row.legs[1].status, row.legs[2].status })
    assert.same({ 307, "http://h:80/a?x=*", "http://h2/b?y=*", 42 * MS, 28 * MS },
      { hop.status, hop.from, hop.to, hop.leg_ns, hop.next_ns })
    assert.equal("beforeRedirect", row.legs[1].parts[#row.legs[1].parts].name)
  end)

  it("tells a redirect before .NET 8 by its second headers: status, but no new URL", function()
    local w = window():request(0, A)
    w:on("headers", 1, HEADERS, A, { size = 0 }):on("headers_stop", 2, HEADERS)
    w:on("answer", 40, ANSWER, A):on("answer_stop", 41, ANSWER, nil, { statusCode = 302 })
    w:on("left_queue", 45, A, nil, { timeOnQueueMilliseconds = 2 })
    w:on("headers", 50, id("1/5/7"), A, { size = 0 }):on("headers_stop", 51, id("1/5/7"))
    w:on("answer", 60, id("1/5/8"), A):on("answer_stop", 61, id("1/5/8"), nil, { statusCode = 200 })
    w:on("request_stop", 62, A, nil, { statusCode = 200 })
    local artifact = w:done()
    local row = artifact.slowest[1]
    assert.same({ 2, 302, 200 }, { #row.legs, row.legs[1].status, row.legs[2].status })
    assert.is_nil(row.legs[2].url)
    assert.is_nil(row.legs[1].connection)
    assert.same({ "beforeQueue 2", "queue 2" }, { table.unpack(told(row.legs[2].parts), 1, 2) })
    assert.is_false(artifact.told.connections)
    artifact.notes, artifact.rows_dropped = {}, 0
    assert.matches("OlderPayloads: .*connections and new URLs of redirects %(from .NET 8%)", table.concat(notes.of(artifact, {}), "\n"))
  end)

  it("has no status before .NET 7, and says so", function()
    local w = window():request(0, A)
    w:on("headers", 1, HEADERS, A, { size = 0 }):on("headers_stop", 2, HEADERS)
    w:on("answer", 40, ANSWER, A):on("answer_stop", 41, ANSWER):on("request_stop", 42, A, nil, { size = 0 })
    w:request(50, id("1/6")):on("request_failed", 60, id("1/6")):on("request_stop", 61, id("1/6"), nil, { size = 0 })
    local artifact = w:done()
    artifact.notes, artifact.rows_dropped, artifact.started_unix_ms = {}, 0, 0
    local requests = wire.requests(artifact, artifact.slowest)
    assert.same({ "ok", "failed", "queue" }, { requests[1].outcome, requests[2].outcome, requests[2].failedIn })
    assert.is_nil(requests[1].status)
    assert.is_nil(requests[1].legs[1].status)
    assert.is_nil(requests[2].error)
    assert.matches("status of answers and texts of failures %(from .NET 7%)", table.concat(notes.of(artifact, {}), "\n"))
  end)

  it("keeps a second try after a lost connection in one leg, and one after a challenge in a leg of its own", function()
    local w = window():request(0, A)
    w:on("headers", 1, HEADERS, A, { connectionId = 1 }):on("headers_stop", 2, HEADERS)
    exchange(w, 5, A, { id("1/5/7"), id("1/5/8"), id("1/5/9") }):on("request_stop", 30, A, nil, { statusCode = 200 })
    assert.same({ 1, 0 }, { #w:done().slowest[1].legs, w:done().redirected })
  end)

  it("takes the first of two waits in the queue through a proxy", function()
    local w = window():request(0, A)
    w:on("left_queue", 5, A, nil, { timeOnQueueMilliseconds = 5 }):on("left_queue", 9, A, nil, { timeOnQueueMilliseconds = 1 })
    exchange(w, 10, A):on("request_stop", 28, A, nil, { statusCode = 200 })
    assert.equal("queue 5", told(w:done().slowest[1].legs[1].parts)[1])
  end)

  it("tells no time twice where phases overlap, as in HTTP/2", function()
    local w = window():request(0, A)
    w:on("headers", 0, HEADERS, A):on("headers_stop", 1, HEADERS):on("content", 1, id("1/5/4"), A)
    w:on("answer", 3, ANSWER, A):on("answer_stop", 5, ANSWER, nil, { statusCode = 200 }):on("content_stop", 9, id("1/5/4"))
    w:on("request_stop", 10, A, nil, { statusCode = 200 })
    local row = w:done().slowest[1]
    assert.same({ "requestHeaders 1", "requestContent 8", "responseHeaders 0", "beforeEnd 1" }, told(row.legs[1].parts))
  end)

  it("knows where a request failed", function()
    local cases = {
      queue = function() end,
      dns = function(w) w:on("lookup", 1, id("1/5/4"), A):on("lookup_failed", 2, id("1/5/4")):on("lookup_stop", 2, id("1/5/4")) end,
      connect = function(w) w:on("connect", 1, id("1/5/4"), A) end, -- given up while it went on
      tls = function(w)
        w:on("connect", 1, id("1/5/4"), A):on("connect_stop", 2, id("1/5/4")):on("handshake", 2, id("1/5/6"), A, { isServer = false })
        w:on("handshake_failed", 3, id("1/5/6"), nil, { exceptionMessage = "not trusted" }):on("handshake_stop", 3, id("1/5/6"))
      end,
      requestHeaders = function(w) w:on("headers", 1, HEADERS, A) end,
      requestContent = function(w) w:on("headers", 1, HEADERS, A):on("headers_stop", 2, HEADERS):on("content", 3, id("1/5/4"), A) end,
      waitForResponse = function(w) w:on("headers", 1, HEADERS, A):on("headers_stop", 2, HEADERS) end,
      responseContent = function(w)
        w:on("headers", 1, HEADERS, A):on("headers_stop", 2, HEADERS):on("answer", 3, ANSWER, A)
        w:on("answer_stop", 4, ANSWER, nil, { statusCode = 200 }):on("body", 5, BODY, A)
      end,
    }
    for phase, case in pairs(cases) do
      local w = window():request(0, A)
      case(w)
      w:on("request_failed", 8, A, nil, { exceptionMessage = "it failed" }):on("request_stop", 9, A, nil, { statusCode = -1 })
      local artifact = w:done()
      assert.same({ { phase = phase, n = 1 } }, artifact.failed_in, phase)
      local row = artifact.failures[1]
      assert.same({ phase, "it failed", 9 * MS }, { row.failed_in, row.error, row.ns })
      assert.is_nil(row.status)
      local total = 0
      for _, p in ipairs(row.legs[1].parts) do if p.kind ~= "setup" then total = total + p.ns end end
      assert.equal(9 * MS, total, phase)
    end
  end)

  it("does not blame a connection that failed when the request went out by another", function()
    local w = window():request(0, A)
    w:on("connect", 1, id("1/5/4"), A):on("connect_failed", 2, id("1/5/4"), nil, { error = 10061 }):on("connect_stop", 2, id("1/5/4"))
    w:on("headers", 3, HEADERS, A):on("headers_stop", 4, HEADERS):on("request_failed", 8, A):on("request_stop", 9, A)
    assert.equal("waitForResponse", w:done().failures[1].failed_in)
  end)

  it("puts a connection made under a request that is over to the one that waits longest for the same host", function()
    local old, other, first, second = id("1/5"), id("1/6"), id("1/7"), id("1/8")
    local w = window():request(0, old):on("request_failed", 5, old):on("request_stop", 5, old, nil, { statusCode = -1 })
    w:on("request", 6, other, nil, { scheme = "http", host = "elsewhere", port = 80, pathAndQuery = "/" })
    w:request(7, first):request(8, second)
    w:on("lookup", 9, id("1/5/3")):on("lookup_stop", 10, id("1/5/3")):on("connect", 10, id("1/5/3/1")):on("connect_stop", 12, id("1/5/3/1"))
    w:on("handshake", 12, id("1/5/4"), nil, { isServer = false }):on("handshake_failed", 20, id("1/5/4"), nil, { exceptionMessage = "no" })
    w:on("handshake_stop", 20, id("1/5/4")):on("left_queue", 21, first, nil, { timeOnQueueMilliseconds = 14 })
    w:on("request_failed", 22, first):on("request_stop", 22, first, nil, { statusCode = -1 })
    -- and the pool goes on with the next one, in the same place
    w:on("connect", 23, id("1/5/9"), old):on("connect_stop", 24, id("1/5/9")):on("connected", 24, old, nil, { connectionId = 7 })
    exchange(w, 25, second, { id("1/8/1"), id("1/8/2"), id("1/8/3") }):on("request_stop", 50, second, nil, { statusCode = 200 })
    local artifact = w:done(60)
    assert.same({ { phase = "queue", n = 1 }, { phase = "tls", n = 1 } }, artifact.failed_in)
    assert.same({ "tls", "no" }, { artifact.failures[2].failed_in, artifact.failures[2].cause })
    local leg = artifact.slowest[1].legs[1]
    assert.same({ true, "connect", true }, { leg.made, leg.parts[#leg.parts].name, leg.parts[#leg.parts].inherited })
    assert.same({ 4, 0, 1 }, { artifact.inherited, artifact.elsewhere, artifact.n_in_flight })
    assert.equal("queue", artifact.in_flight[1].waits_in)
    artifact.notes, artifact.rows_dropped = {}, 0
    assert.matches("Inferred: 4 steps", table.concat(notes.of(artifact, {}), "\n"), 1, true)
  end)

  it("remembers a bounded number of requests that are over, and of those that wait", function()
    local w = window()
    for i = 1, 3000 do
      local a = id("1/1/" .. i)
      w:request(i, a):on("headers", i, id("1/1/" .. i .. "/1"), a, { connectionId = 1 })
      if i % 2 == 0 then w:on("request_stop", i, a, nil, { statusCode = 200 }) end
    end
    local retired, waiting = 0, 0
    for _ in pairs(w.assembly.heirs.by_path) do retired = retired + 1 end
    for _, queue in pairs(w.assembly.heirs.waiting) do waiting = waiting + queue.tail - queue.head + 1 end
    assert.equal(heirs.MAX_RETIRED, retired)
    assert.is_true(waiting <= 1, "none of them waits, but " .. waiting)
  end)

  it("names the parent of a start by its related id where the path of the id does not say it", function()
    local overflow = "ffffffff-0000-0000-0000-000000000001"
    local w = window():request(0, A)
    w:on("headers", 1, overflow, A, { connectionId = 7 }):on("headers_stop", 2, overflow)
    w:on("request_stop", 5, A, nil, { statusCode = 200 })
    assert.equal("requestHeaders 1", told(w:done().slowest[1].legs[1].parts)[2])
  end)

  it("finds the request by the path where a start does not name its parent", function()
    local w = window():request(0, A)
    w:on("headers", 1, HEADERS):on("headers_stop", 2, HEADERS):on("connect", 2, id("1/5/9/4")):on("connect_stop", 3, id("1/5/9/4"))
    w:on("request_stop", 5, A, nil, { statusCode = 200 })
    local artifact = w:done()
    assert.same({ "beforeRequestHeaders 1", "requestHeaders 1", "beforeEnd 3", "connect 1" }, told(artifact.slowest[1].legs[1].parts))
    assert.same({ 0, 0 }, { artifact.orphans, artifact.elsewhere })
  end)

  it("takes no path from an id that another process has made", function()
    local w = window():request(0, A)
    w:on("headers", 1, id("1/5/1", 4712)):on("headers_stop", 2, id("1/5/1", 4712)):on("request_stop", 5, A, nil, { statusCode = 200 })
    local artifact = w:done()
    assert.same({ 2, { "beforeEnd 5" } }, { artifact.orphans, told(artifact.slowest[1].legs[1].parts) })
  end)

  it("keeps a request inside a request apart", function()
    local inner = id("1/5/9")
    local w = window():request(0, A):request(2, inner, A, "/token")
    exchange(w, 3, inner, { id("1/5/9/1"), id("1/5/9/2"), id("1/5/9/3") }):on("request_stop", 25, inner, nil, { statusCode = 200 })
    w:on("request_stop", 40, A, nil, { statusCode = 200 })
    local rows = w:done().slowest
    assert.same({ 40 * MS, 1, 23 * MS, 7 }, { rows[1].ns, #rows[1].legs[1].parts, rows[2].ns, #rows[2].legs[1].parts })
  end)

  it("counts what had begun before the window, what others did, and what has no id", function()
    local w = window()
    w:on("headers_stop", 1, HEADERS):on("request_stop", 2, A)
    w:on("lookup", 3, id("1/9"), nil):on("lookup_stop", 4, id("1/9")):on("handshake", 4, id("1/8"), nil, { isServer = true })
    w:on("request", 5, nil, nil, { scheme = "http" }):on("request_stop", 6, nil)
    local artifact = w:done()
    assert.same({ 2, 2, 2, 0 }, { artifact.orphans, artifact.elsewhere, artifact.without_id, artifact.ended })
  end)

  it("lists what is in flight at the end, oldest first, with its age and where it stands", function()
    local w = window():request(10, id("1/7")):request(0, A)
    w:on("headers", 1, HEADERS, A):on("headers_stop", 2, HEADERS)
    local artifact = w:done(100)
    assert.same({ 2, 2 }, { artifact.n_in_flight, #artifact.in_flight })
    local first, second = artifact.in_flight[1], artifact.in_flight[2]
    assert.same({ 100 * MS, "waitForResponse", 90 * MS, "queue" }, { first.ns, first.waits_in, second.ns, second.waits_in })
    artifact.started_unix_ms = 0
    assert.equal("inFlight", wire.requests(artifact, artifact.in_flight)[1].outcome)
    assert.equal(0, artifact.ended)
  end)

  it("follows no more requests at once than its cap, and counts the others", function()
    local most = assemble.MAX_OPEN
    assemble.MAX_OPEN = 2
    local w = window():request(0, id("1/2")):request(1, id("1/3")):request(2, id("1/4"))
    w:on("request_stop", 3, id("1/2"), nil, { statusCode = 200 }):request(4, id("1/4"))
    assemble.MAX_OPEN = most
    local artifact = w:done()
    assert.same({ 4, 1, 2, 1 }, { artifact.started, artifact.not_followed, artifact.n_in_flight, artifact.ended })
  end)

  it("forgets a request's events when it has ended", function()
    local w = window()
    for i = 1, 50 do
      local a = id("1/" .. i)
      w:request(i, a):on("headers", i, id("1/" .. i .. "/1"), a):on("request_stop", i + 1, a, nil, { statusCode = 200 })
    end
    assert.same({ 0, nil, nil }, { w.assembly.n_open, next(w.assembly.nodes), next(w.assembly.by_path) })
  end)

  it("keeps exact totals beyond the rows and samples that it holds", function()
    local w = window()
    local n = 3 * tally.MAX_SLOWEST
    for i = 1, n do
      local a = id("1/2000")
      w:request(i * 1000, a):on("request_failed", i * 1000 + i, a):on("request_stop", i * 1000 + i, a, nil, { statusCode = -1 })
    end
    local artifact = w:done()
    assert.same({ n, n, tally.MAX_SLOWEST, tally.MAX_FAILURES, n },
      { artifact.ended, artifact.failed, #artifact.slowest, #artifact.failures, artifact.failures_seen })
    assert.same({ n * MS, (n - tally.MAX_SLOWEST + 1) * MS }, { artifact.slowest[1].ns, artifact.slowest[tally.MAX_SLOWEST].ns })
    assert.equal(n * (n + 1) // 2 * MS, artifact.total.total)
    assert.is_true(math.abs(artifact.total.p50 / MS - n / 2) <= 1)
  end)
end)

describe("collectors.http_phases.tally samples", function()
  local function ended(host, ms)
    local leg = { at = 0, steps = {}, setup = {} }
    return { at = 0, stop = ms * MS, scheme = "http", host = host, port = 1, target = "/", legs = { leg } }
  end

  it("stand for all when there are more than are kept, and say how many are kept", function()
    local sums = tally.new()
    for i = 1, 5000 do sums:add(ended("h", i)) end
    local figures = tally.figures(sums.total)
    assert.same({ 5000, 1000, 5000 * MS }, { figures.n, figures.samples, figures.max })
    assert.is_true(figures.p50 > 2000 * MS and figures.p50 < 3000 * MS, "p50 " .. figures.p50)
    assert.is_true(figures.p95 > 4500 * MS and figures.p95 < 5000 * MS, "p95 " .. figures.p95)
  end)

  it("of hosts beyond the cap are in the totals only", function()
    local most = tally.MAX_HOSTS
    tally.MAX_HOSTS = 2
    local sums = tally.new()
    for i = 1, 4 do sums:add(ended("h" .. i, 1)) end
    tally.MAX_HOSTS = most
    assert.same({ 4, 2, 2 }, { sums.n, sums.n_hosts, sums.other_hosts })
  end)
end)

describe("signal http-phases.by-part", function()
  local by_part = require("signals.http_phases_by_part")
  local function of(n, total_ms, share, kind)
    return by_part.of({
      ended = n, total = { total = total_ms * MS },
      parts = { { name = "queue", kind = kind or "phase", share = share, total = share * total_ms * MS } },
    }, "H")
  end

  it("names the part that most of the time went to", function()
    local found = of(5, 100, 0.7)[1]
    assert.same({ "http-phases.by-part", 0.7, "byPhase" }, { found.signal, found.salience, found.nextAction.suggestedArguments.view })
    assert.matches("70 %% of the 100.0 ms that 5 outgoing requests took went to queue", found.summary)
  end)

  it("is silent for few requests, little time or no part that leads", function()
    for _, list in ipairs { of(4, 100, 0.7), of(5, 10, 0.7), of(5, 100, 0.4), of(5, 100, 0.7, "setup"),
      by_part.of({ ended = 0, total = { total = 0 }, parts = {} }, "H") } do
      assert.same({}, list)
    end
  end)
end)

describe("collectors.http_phases.parts", function()
  it("names every phase's wait", function()
    for _, phase in ipairs(parts.PHASES) do assert.is_string(parts.WAITS[phase]) end
  end)
end)
