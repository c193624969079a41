-- SPDX-License-Identifier: MIT
-- collect_events(kind="kestrel") over recorded sessions of a service that was asked a known number of times.
local json = require("lunette.json")
local recorded = require("support.recorded")

local HANDLE <const> = "kestrel-snapshot"

-- Requests by operation that ended, of `serve n`.
local function operations(n)
  local map = {}
  for key, count in pairs {
    ["GET /ok HTTP/1.1"] = 3 * n, ["POST /ok HTTP/1.1"] = n, ["GET /ok HTTP/2"] = n, ["GET /busy HTTP/1.1"] = 4,
    ["GET /missing HTTP/1.1"] = 3, ["GET /slow HTTP/1.1"] = 2, ["GET /fail HTTP/1.1"] = 2,
    ["GET /reset/password=<redacted:sensitive> HTTP/1.1"] = 2, ["GET /token/<redacted:sensitive> HTTP/1.1"] = 1,
  } do
    map[key] = count
  end
  return map
end

local function by_operation(list)
  local map = {}
  for _, op in ipairs(list) do map[("%s %s %s"):format(op.method, op.path, op.httpVersion)] = op.count end
  return map
end

local function counts(k)
  return {
    k.connectionsStarted, k.connectionsStopped, k.connectionsRejected, k.requestsStarted, k.requestsStopped, k.tlsHandshakesStarted,
    k.tlsHandshakesStopped, k.tlsHandshakesFailed,
  }
end

describe("collectors.kestrel over a recording", function()
  for name, n in pairs { serve = 10, ["net8-serve"] = 4 } do
    it("counts what the clients did: " .. name, function()
      local envelope = recorded.collect("kestrel", name, { depth = "Detail" })
      local k = envelope.data.kestrel
      local ended = 3 * n + 12 + 2 + 2 * n
      assert.same({ n + 10, n + 7, 0, ended + 3, ended, n + 4, n + 4, 3 }, counts(k))
      assert.same(operations(n), by_operation(k.byOperation))
      assert.same({ "Tls12", "Tls13" }, k.tlsProtocols)
      assert.is_true(k.requestMax >= "00:00:00.0800000" and k.requestP50 < k.requestMax, k.requestMax)
      assert.is_true(k.tlsHandshakeP50 > "00:00:00" and k.connectionDurationMax > k.tlsHandshakeMax)
      local options = assert(json.decode(k.configurationJson))
      assert.equal(40, options.Limits.MaxConcurrentConnections)
      assert.same({ 0, 0 }, { k.peakConnectionQueueLength, k.peakRequestQueueLength })
      assert.is_true(#k.queuePoints >= 1 and k.queuePoints[1].requestQueueLength == 0 and k.queuePoints[1].connectionQueueLength == 0)
      assert.same({}, k.notes)
      local slow = envelope.signals[1]
      assert.same({ "kestrel.by-operation", "GET /slow" }, { slow.signal, slow.buckets[1].key })
      assert.is_nil(json.encode(envelope):find("S3cret", 1, true))
    end)
  end

  it("leaves options and queues behind the handle at Summary", function()
    local envelope = recorded.collect("kestrel", "serve")
    local k = envelope.data.kestrel
    assert.is_nil(k.configurationJson)
    assert.same({}, k.queuePoints)
    assert.is_nil(json.encode(envelope):find("MaxConcurrentConnections", 1, true))
    local config = recorded.view(envelope, HANDLE, "config")
    assert.equal(40, json.decode(config.configurationJson).Limits.MaxConcurrentConnections)
    local queues = recorded.view(envelope, HANDLE, "queues")
    assert.same({ 0, 0 }, { queues.peakConnectionQueueLength, queues.peakRequestQueueLength })
    assert.is_true(#queues.points >= 1)
    local tls = recorded.view(envelope, HANDLE, "tls")
    assert.same({ 14, 14, 3, { "Tls12", "Tls13" } },
      { tls.tlsHandshakesStarted, tls.tlsHandshakesStopped, tls.tlsHandshakesFailed, tls.tlsProtocols })
  end)

  it("has all operations in the views, most frequent first", function()
    local envelope = recorded.collect("kestrel", "serve")
    local view = recorded.view(envelope, HANDLE, "byOperation")
    assert.equal(9, view.returned)
    assert.same(operations(10), by_operation(view.operations))
    for i = 2, #view.operations do assert.is_true(view.operations[i].count <= view.operations[i - 1].count) end
    local two = recorded.view(envelope, HANDLE, "byOperation", { topN = 2 })
    assert.same({ 2, "/ok", 30 }, { two.returned, two.operations[1].path, two.operations[1].count })
    local summary = recorded.view(envelope, HANDLE, "summary", { topN = 1 })
    assert.same({ 20, 17, 0, 67, 64, 14, 14, 3 }, counts(summary))
    assert.equal(1, #summary.topOperations)
    for _, name in ipairs { "summary", "byOperation", "queues", "tls", "config" } do
      assert.is_nil(json.encode(recorded.view(envelope, HANDLE, name)):find("S3cret", 1, true))
    end
  end)

  it("says what it could not time without activity ids", function()
    local k = recorded.collect("kestrel", "kestrel").data.kestrel
    assert.same({ 14, 11, 0, 37, 34, 8, 0, 3 }, counts(k))
    assert.equal("00:00:00", k.tlsHandshakeMax)
    assert.is_truthy(k.notes[1]:find("^NoHandshakeTimes: "))
  end)

  it("says of a recording without Kestrel what it would need", function()
    local k = recorded.collect("kestrel", "throw").data.kestrel
    assert.same({ 0, 0, 0, 0, 0, 0, 0, 0 }, counts(k))
    assert.is_truthy(k.notes[1]:find("^NotInRecording: the recording has no event of Kestrel"))
  end)
end)
