-- SPDX-License-Identifier: MIT
-- threadpool-snapshot/diff: what drives a verdict, and what the quality of a window keeps out of it.
local asked = require("support.asked")
local handles = require("lunette.handles")
local json = require("lunette.json")
local window = require("support.pool_window")

local KIND <const> = "threadpool-snapshot"

local function pool(starved, more, of)
  local adjustments = { { 0.2, 0, 2 } }
  for i = 1, starved do adjustments[i + 1] = { i, 6, 2 + i } end
  local given = {
    counts = { { 0, 2, 2 + starved } }, adjustments = adjustments, enqueued = 100, dequeued = 90, origins = { { 100, "App.Feed" } },
    waits = { pairs = 90, unmatched = 0, dropped = 0, open = 10, ms = { p50 = 1, p95 = 2 + 100 * starved, max = 500 } },
  }
  for k, v in pairs(more or {}) do given[k] = v end
  return window.artifact(given, of)
end

local function diff(before, after, more)
  local baseline = handles.put {
    kind = KIND, artifact = before, origin = "trace", process_id = 42, started_unix_ms = before.started_unix_ms, duration_ms = 10000,
  }
  local options = { baselineHandle = baseline.id }
  for k, v in pairs(more or {}) do options[k] = v end
  return asked.view(KIND, after, "diff", options)
end

local function metric(payload, name)
  for _, row in ipairs(payload.metrics) do
    if row.name == name then return row end
  end
  return nil
end

describe("views.threadpool-snapshot.diff", function()
  it("calls more starvation and longer waits a regression, less an improvement, the same no change", function()
    local payload = diff(pool(0), pool(4))
    assert.equal("regression", payload.verdict)
    assert.same({ 0, 4 }, metric(payload, "starvationAdjustments").values)
    assert.same({ 2, 402 }, metric(payload, "queueWaitP95Ms").values)
    assert.same({ 2, 6 }, metric(payload, "peakWorkerThreadCount").values)
    assert.same({ 10, 10 }, metric(payload, "enqueuedPerSecond").values)
    assert.equal("improvement", diff(pool(4), pool(0)).verdict)
    assert.equal("no_change", diff(pool(2), pool(2)).verdict)
  end)

  it("has the origins as keys", function()
    local payload = diff(pool(0), pool(0, { origins = { { 70, "App.Feed" }, { 30, "App.Timer" } } }))
    assert.equal("App.Feed", payload.keys[1].key)
    assert.same({ 100, 70 }, payload.keys[1].values)
    assert.equal(30, payload.keys[2].values[2])
  end)

  it("concludes nothing from a window that lost events", function()
    local payload = diff(pool(0), pool(4, nil, { lost = 7 }))
    assert.equal("inconclusive", payload.verdict)
    local starved = metric(payload, "starvationAdjustments")
    assert.same({ 0, json.null, nil }, { starved.values[1], starved.values[2], starved.direction })
  end)

  it("does not compare the peak of a window whose first count came late", function()
    local late = pool(4, { counts = { { 6, 9 } } })
    assert.is_nil(metric(diff(pool(0), late), "peakWorkerThreadCount").direction)
    assert.equal("regression", diff(pool(0), late).verdict) -- the waits and the reasons still tell
  end)
end)
