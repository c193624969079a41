-- SPDX-License-Identifier: MIT
-- contention-snapshot/diff: rates and waits of two windows, verdicts, and what lost events keep out of it.
local asked = require("support.asked")
local handles = require("lunette.handles")

local KIND <const> = "contention-snapshot"
local MS <const> = 1000000

local function window(n, wait_ms, more)
  local artifact = {
    total = n, monitors = 2, total_ns = n * wait_ms * MS, time = { p50 = wait_ms * MS, p95 = wait_ms * MS, max = 2 * wait_ms * MS },
    sites = { { site = { method = "App.Locks.Take" }, n = n, total_ns = n * wait_ms * MS } }, still = { n = 0, longest_ns = 0 },
    duration_ms = 10000, started_unix_ms = 1764500000000, cost = { eventsLost = 0 }, process_id = 42, notes = {},
  }
  for k, v in pairs(more or {}) do artifact[k] = v end
  return artifact
end

local function diff(before, after)
  local baseline = handles.put {
    kind = KIND, artifact = before, origin = "trace", process_id = 42, started_unix_ms = before.started_unix_ms, duration_ms = 10000,
  }
  return asked.view(KIND, after, "diff", { baselineHandle = baseline.id })
end

local function metric(payload, name)
  for _, row in ipairs(payload.metrics) do
    if row.name == name then return row end
  end
  return nil
end

describe("views.contention-snapshot.diff", function()
  after_each(handles.clear)

  it("calls more and longer waits a regression, fewer and shorter ones an improvement", function()
    local payload = diff(window(100, 20), window(300, 60))
    assert.equal("regression", payload.verdict)
    assert.same({ 10, 30 }, metric(payload, "contentionsPerSecond").values)
    assert.same({ 200, 1800 }, metric(payload, "waitMsPerSecond").values)
    assert.same({ 20, 60 }, metric(payload, "waitP95Ms").values)
    assert.equal("improvement", diff(window(300, 60), window(100, 20)).verdict)
    assert.equal("no_change", diff(window(100, 20), window(100, 20)).verdict)
  end)

  it("compares rates: a window of twice the length with twice the waits is no change", function()
    assert.equal("no_change", diff(window(100, 20), window(200, 20, { duration_ms = 20000 })).verdict)
  end)

  it("has the call sites as keys, in milliseconds a second", function()
    local payload = diff(window(100, 20), window(300, 60))
    assert.equal("App.Locks.Take", payload.keys[1].key)
    assert.same({ 200, 1800 }, payload.keys[1].values)
  end)

  it("draws no count from a window that lost events", function()
    local payload = diff(window(100, 20), window(300, 20, { cost = { eventsLost = 9 } }))
    local rate = metric(payload, "contentionsPerSecond")
    assert.equal(10, rate.values[1])
    assert.is_false(type(rate.values[2]) == "number")
    assert.is_false(payload.verdict == "regression")
  end)
end)
