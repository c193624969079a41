-- SPDX-License-Identifier: MIT
-- list, info, capabilities and counters of a target whose values are known to the last digit, on every runtime.
local h = require("harness")

local RUNTIMES <const> = { "net10.0", "net9.0", "net8.0", "aot" }
local VERSION <const> = { ["net10.0"] = "^10%.", ["net9.0"] = "^9%.", ["net8.0"] = "^8%.", aot = "." }

local function list_and_info(target, runtime)
  local listed = h.find(h.call("inspect_process", { view = "list" }).data.list, { processId = target.pid })
  h.ok(listed, "the target in the list")
  -- a program compiled ahead of time tells its name only
  h.ok(listed.commandLine:find(runtime == "aot" and "lunette-target" or "counters", 1, true), "its command line " .. listed.commandLine)
  h.ok(listed.runtimeVersion:find(VERSION[runtime]), "its runtime version " .. tostring(listed.runtimeVersion))
  h.eq("linux", listed.operatingSystem, "operating system")
  local info = h.call("inspect_process", { view = "info", processId = target.pid })
  h.ok(not info.error, "info without an error")
  h.ok(h.json.encode(info.data):find('"processId":' .. target.pid, 1, true), "processId of info")
  local capabilities = h.call("inspect_process", { view = "capabilities", processId = target.pid }).data.capabilities
  h.eq(true, capabilities.canReadEventCounters, "canReadEventCounters")
  h.eq(runtime == "aot" and "NativeAot" or "CoreClr", capabilities.runtime, "runtime flavour")
  h.eq(runtime ~= "aot", capabilities.canSampleCpu, "canSampleCpu")
end

local function event_counters(rows)
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

local function meters(rows, n_min)
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

local ARGUMENTS <const> = { kind = "counters", durationSeconds = 4, depth = "Detail", meters = { "Lunette.Test" } }

local function collect(server, target, more)
  local arguments = { processId = target.pid }
  for name, value in pairs(ARGUMENTS) do arguments[name] = value end
  for name, value in pairs(more or {}) do arguments[name] = value end
  local envelope = h.ok(server:call("collect_events", arguments))
  h.ok(not envelope.error, "no error: " .. h.json.encode(envelope.error or {}))
  return envelope
end

local function views(server, handle, detail)
  local summary = h.ok(server:call("query_snapshot", { handle = handle, view = "summary" })).data
  local payload = summary.result or summary.payload or summary
  local text = h.json.encode(payload)
  h.ok(text:find('"gauge"', 1, true) and text:find('"test.latency"', 1, true), "the summary view has all")
  h.ok(#detail.counters >= 20, "System.Runtime's counters too")
  local grouped = h.json.encode(h.ok(server:call("query_snapshot", { handle = handle, view = "byProvider" })).data)
  h.ok(grouped:find('"provider":"System.Runtime"', 1, true) and grouped:find('"provider":"Lunette-Test"', 1, true), "both providers")
end

local function known_values(runtime)
  return function(skip)
    local built, why = h.build_target(runtime)
    if not built then skip(why) end
    local target <close> = h.target(runtime, "counters")
    list_and_info(target, runtime)
    local server <close> = h.server()
    local before = h.usage(server.pid)
    local envelope = collect(server, target, { providers = { "System.Runtime", "Lunette-Test" } })
    local data = envelope.data.counters
    h.eq(target.pid, data.processId, "processId")
    event_counters(data.counters)
    meters(data.meters, 2)
    h.eq(tonumber(h.loop.exec({ argv = { "nproc" }, timeout_ms = 5000 }).stdout), data.processorCount, "processorCount")
    h.ok(h.find(data.counters, { provider = "System.Runtime", name = "working-set" }).value > 5, "working-set")
    h.eq("", table.concat(data.notes, " "), "notes")
    views(server, envelope.handle, data)
    h.no_session(target)
    h.settled(server, before)
  end
end

local function summary_depth(skip)
  local built, why = h.build_target("net10.0")
  if not built then skip(why) end
  local target <close> = h.target("net10.0", "counters")
  local server <close> = h.server()
  local envelope = collect(server, target, { depth = "Summary", durationSeconds = 2, providers = { "System.Runtime", "Lunette-Test" } })
  local data = envelope.data.counters
  h.eq(nil, h.find(data.counters, { provider = "Lunette-Test" }), "only headline counters at Summary")
  h.ok(h.find(data.counters, { name = "cpu-usage" }), "cpu-usage is a headline")
  h.eq(0, #data.meters, "only request durations at Summary")
  h.ok(data.processorCount, "processorCount at Summary")
  h.ok(#h.json.encode(envelope) <= 16384, "a short answer")
  local none = collect(server, target, { providers = {}, durationSeconds = 2 }).data.counters
  h.eq(0, #none.counters, "providers=[]: no EventCounters")
  h.ok(#none.meters > 5, "Meters without EventCounters")
  local only = collect(server, target, { meters = {}, durationSeconds = 2 }).data.counters
  h.eq(0, #only.meters, "meters=[]: no Meter series")
end

local function series_cap(skip)
  local built, why = h.build_target("net10.0")
  if not built then skip(why) end
  local target <close> = h.target("net10.0", "series", 200)
  local envelope = h.call("collect_events", { kind = "counters", processId = target.pid, durationSeconds = 3, depth = "Detail",
    providers = {}, meters = { "Lunette.Many" }, maxInstrumentTimeSeries = 50 })
  h.eq(50, #envelope.data.counters.meters, "rows at the cap")
  h.ok(table.concat(envelope.data.counters.notes, "\n"):find("TimeSeriesLimitReached: capped at 50 series.", 1, true), "the note")
  h.no_session(target)
end

local function other_limits(skip)
  local built, why = h.build_target("net10.0")
  if not built then skip(why) end
  local target <close> = h.target("net10.0", "counters")
  local server <close> = h.server()
  local first, second = table.unpack(h.together {
    function() return collect(server, target, { durationSeconds = 6, maxInstrumentTimeSeries = 500, providers = {} }) end,
    function()
      h.loop.sleep_ms(1500)
      return collect(server, target, { durationSeconds = 3, maxInstrumentTimeSeries = 700, providers = {} })
    end,
  })
  meters(first.data.counters.meters, 2)
  meters(second.data.counters.meters, 1)
  h.ok(table.concat(second.data.counters.notes, "\n"):find("SharedMeterSession", 1, true), "the second says that it joined")
  h.no_session(target)
end

local function shorter_interval(skip)
  local built, why = h.build_target("net10.0")
  if not built then skip(why) end
  local target <close> = h.target("net10.0", "counters")
  local server <close> = h.server()
  local own = { "Lunette-Test" }
  local slow = h.together {
    function() return collect(server, target, { durationSeconds = 7, intervalSeconds = 3, providers = own, meters = {} }) end,
    function() return collect(server, target, { durationSeconds = 7, intervalSeconds = 1, providers = own, meters = {} }) end,
  }[1]
  h.eq(21, h.ok(h.find(slow.data.counters.counters, { name = "polled" })).value, "three intervals of seven")
end

local cases = {}
for _, runtime in ipairs(RUNTIMES) do cases[#cases + 1] = { "known values on " .. runtime, known_values(runtime) } end
cases[#cases + 1] = { "what Summary, providers=[] and meters=[] leave out", summary_depth }
cases[#cases + 1] = { "a cap on series", series_cap }
cases[#cases + 1] = { "joins a shared Meter session with other limits", other_limits }
cases[#cases + 1] = { "puts a shorter interval of another session together", shorter_interval }
return cases
