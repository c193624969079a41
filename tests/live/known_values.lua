-- SPDX-License-Identifier: MIT
-- What the test target says that it did, and what its "counters" mode must show, whoever looks: see tests/targets.
local h = require("harness")

local M = {}

--- Waits until a mode with an end of its own is DONE, and gives what it did: `{ thrown = 60, wait_total_ms = 812.5, ... }`.
---@param target table   see harness.target
---@return table<string, number>
function M.did(target, from)
  local did = {}
  for name, value in target:line("^DONE ", from):gmatch("([%w_]+)=(%S+)") do did[name] = math.tointeger(value) or tonumber(value) end
  return did
end

--- The rows of EventSource Lunette-Test.
function M.event_counters(rows)
  local gauge = h.ok(h.find(rows, { provider = "Lunette-Test", name = "gauge" }), "gauge")
  h.eq(17.25, gauge.value, "gauge")
  h.eq("Mean", gauge.kind, "kind of gauge")
  h.eq("MB", gauge.unit, "unit of gauge")
  h.eq("Gauge, 17.25", gauge.displayName, "display name of gauge")
  local polled = h.ok(h.find(rows, { provider = "Lunette-Test", name = "polled" }), "polled")
  h.eq(7, polled.value, "polled")
  h.eq("Sum", polled.kind, "kind of polled")
  h.near(20, 1, h.ok(h.find(rows, { name = "written" }), "written").value, "written: an interval may cut a triple")
  local pushed = h.ok(h.find(rows, { name = "pushed" }), "pushed").value
  h.near(50, 15, pushed, "pushed")
  h.eq(0, pushed % 5, "pushed comes in fives")
end

--- The series of Meter Lunette.Test, after at least n_min intervals.
function M.meters(rows, n_min)
  local function series(instrument, tags)
    return h.ok(h.find(rows, { meter = "Lunette.Test", instrument = instrument, tags = tags }), instrument .. " " .. h.json.encode(tags))
  end
  local get, post = series("test.requests", { method = "GET" }), series("test.requests", { method = "POST" })
  h.eq("Counter", get.kind, "kind of test.requests")
  h.eq("{request}", get.unit, "unit of test.requests")
  h.near(11, 0.3, get.rate, "rate of GET")
  h.near(3, 0.1, post.rate, "rate of POST")
  h.eq(0, get.lastValue % 11, "total of GET in elevens")
  h.ok(get.lastValue >= 11 * n_min, "several intervals of GET")
  h.eq(get.lastValue * 3, post.lastValue * 11, "GET to POST")
  local pages = series("test.pages", {})
  h.eq("ObservableCounter", pages.kind, "kind of test.pages")
  h.near(13, 0.4, pages.rate, "rate of pages")
  h.eq("UpDownCounter", series("test.depth", {}).kind, "kind of test.depth")
  h.ok(series("test.depth", {}).lastValue >= 1, "test.depth rises by one an interval")
  h.eq(-4, series("test.stock", {}).lastValue, "test.stock")
  h.eq(21.5, series("test.temperature", { room = "north" }).lastValue, "north")
  local south = series("test.temperature", { room = "south", floor = "2" })
  h.eq(-3.75, south.lastValue, "south")
  h.eq("ObservableGauge", south.kind, "kind of test.temperature")
  h.eq(nil, south.rate, "a gauge has no rate")
  local latency = series("test.latency", { route = "/a" })
  h.eq("Histogram", latency.kind, "kind of test.latency")
  h.eq("s", latency.unit, "unit of test.latency")
  h.eq(100, latency.histogram.count, "count of the histogram")
  h.near(5.05, 1e-9, latency.histogram.sum, "sum of the histogram")
  -- the runtime's own rank rule gives the 51st, 96th and 100th of the hundred values, within a thousandth
  h.near(0.051, 0.0001, latency.histogram.p50, "p50")
  h.near(0.096, 0.0001, latency.histogram.p95, "p95")
  h.near(0.100, 0.0001, latency.histogram.p99, "p99")
  h.eq(nil, latency.lastValue, "a histogram has no last value")
end

return M
