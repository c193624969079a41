-- SPDX-License-Identifier: MIT
-- collect_events(kind="requests") over recorded sessions of a service with three hanging requests.
local json = require("lunette.json")
local recorded = require("support.recorded")
local requests = require("collectors.requests")

local HANDLE <const> = "in-flight-requests"

local function hanging(list)
  local rows = {}
  for i, r in ipairs(list) do rows[i] = { r.method, r.path, r.traceId } end
  return rows
end

local function trace(i) return ("%032x"):format(0x1d000000 + i) end
local HANGING <const> = {
  { "GET", "/hang/0", trace(0) }, { "PUT", "/hang/1", trace(1) }, { "POST", "/hang/2/password=<redacted:sensitive>", trace(2) },
}

describe("collectors.requests over a recording", function()
  for name, expected in pairs { serve = { 67, 64 }, ["net8-serve"] = { 37, 34 } } do
    it("lists what had no end, oldest first, and nothing that ended: " .. name, function()
      local envelope = recorded.collect("requests", name, { depth = "Detail" })
      local r = envelope.data.requests
      assert.same({ expected[1], expected[2], 3, 3, 1000 },
        { r.requestsStarted, r.requestsCompleted, r.inFlightCount, r.longRunningCount, r.longRunningThresholdMs })
      assert.same(HANGING, hanging(r.requests))
      assert.equal(r.oldestElapsedMs, r.requests[1].elapsedMs)
      for i, row in ipairs(r.requests) do
        assert.is_true(row.isLongRunning)
        assert.equal(16, #row.spanId)
        assert.is_true(i == 1 or row.elapsedMs <= r.requests[i - 1].elapsedMs)
      end
      assert.same({}, r.notes)
      assert.equal("requests.long-running", envelope.signals[1].signal)
      assert.equal(1.0, envelope.signals[1].salience + 0.0)
    end)
  end

  it("flags by the threshold", function()
    local envelope = recorded.collect("requests", "serve", { longRunningThresholdMs = 3600000 })
    local r = envelope.data.requests
    assert.same({ 3, 0, 3600000 }, { r.inFlightCount, r.longRunningCount, r.longRunningThresholdMs })
    assert.is_false(r.requests[1].isLongRunning)
    assert.is_nil(envelope.signals)
    assert.same({ 3, 0, 0, {} }, (function()
      local view = recorded.view(envelope, HANDLE, "longRunning")
      return { view.inFlightCount, view.longRunningCount, view.returned, view.requests }
    end)())
  end)

  it("cuts inline only: the views have all", function()
    local envelope = recorded.collect("requests", "serve", { maxRequests = 1, depth = "Detail" })
    assert.same({ HANGING[1] }, hanging(envelope.data.requests.requests))
    assert.is_truthy(envelope.data.requests.notes[1]:find("^Inline: the oldest 1 of 3"))
    local view = recorded.view(envelope, HANDLE, "requests")
    assert.same({ 3, 3, HANGING }, { view.inFlightCount, view.returned, hanging(view.requests) })
    assert.same({ HANGING[1], HANGING[2] }, hanging(recorded.view(envelope, HANDLE, "requests", { topN = 2 }).requests))
    assert.same(HANGING, hanging(recorded.view(envelope, HANDLE, "longRunning").requests))
    local summary = recorded.view(envelope, HANDLE, "summary", { topN = 1 })
    assert.same({ 67, 64, 3, 3, { HANGING[1] } }, {
      summary.requestsStarted, summary.requestsCompleted, summary.inFlightCount, summary.longRunningCount, hanging(summary.requests),
    })
  end)

  it("knows no status, and no secret of a path", function()
    local envelope = recorded.collect("requests", "serve", { depth = "Detail" })
    local texts = { json.encode(envelope) }
    for _, view in ipairs { "summary", "requests", "longRunning" } do
      texts[#texts + 1] = json.encode(recorded.view(envelope, HANDLE, view))
    end
    for _, text in ipairs(texts) do
      assert.is_nil(text:find("[Ss]tatus"))
      assert.is_nil(text:find("S3cret", 1, true))
    end
  end)

  it("takes Kestrel's own events where there are no activities", function()
    local r = recorded.collect("requests", "kestrel").data.requests
    assert.same({ 37, 34, 3 }, { r.requestsStarted, r.requestsCompleted, r.inFlightCount })
    assert.same({ { "GET", "/hang/0" }, { "PUT", "/hang/1" }, { "POST", "/hang/2/password=<redacted:sensitive>" } }, hanging(r.requests))
    assert.is_truthy(r.notes[1]:find("^FromKestrel: "))
  end)

  it("says of a recording without requests what it would need", function()
    local r = recorded.collect("requests", "throw").data.requests
    assert.same({ 0, 0, 0, {} }, { r.requestsStarted, r.requestsCompleted, r.inFlightCount, r.requests })
    assert.is_nil(r.oldestElapsedMs)
    assert.is_truthy(r.notes[1]:find("^NotInRecording: the recording has no request"))
  end)

  it("needs eventpipe and nothing else", function()
    assert.same({ "eventpipe" }, requests.scopes)
    assert.equal("moderate", requests.risk)
  end)
end)
