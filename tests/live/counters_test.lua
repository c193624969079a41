-- SPDX-License-Identifier: MIT
-- list, info, capabilities and counters of a target whose values are known to the last digit, on every runtime.
local h = require("harness")
local known = require("known_values")

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
    known.event_counters(data.counters)
    known.meters(data.meters, 2)
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
  known.meters(first.data.counters.meters, 2)
  known.meters(second.data.counters.meters, 1)
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

--- Another tool that holds the one unshared Meter session: no value can come, and the answer says why.
local function meters_busy(skip)
  local built, why = h.build_target("net10.0")
  if not built then skip(why) end
  local target <close> = h.target("net10.0", "counters")
  local other <close> = assert(require("lunette.events").open {
    pid = target.pid, want = { { provider = "System.Diagnostics.Metrics" } }, providers = { {
      name = "System.Diagnostics.Metrics", keywords = 2, level = 4, args = "SessionId=alone;Metrics=Lunette.Test;RefreshInterval=1",
    } },
  })
  h.wait_for("the other session's first values", h.START_MS, function() return other:next(100) end)
  local envelope = h.call("collect_events", { processId = target.pid, durationSeconds = 3, depth = "Detail", meters = { "Lunette.Test" } })
  h.eq(0, #envelope.data.counters.meters, "no Meter values")
  h.ok(#envelope.data.counters.counters > 20, "EventCounters come all the same")
  local notes = table.concat(envelope.data.counters.notes, " ")
  h.ok(notes:find("MetersBusy", 1, true) and notes:find("alone", 1, true), "the note names the other session: " .. notes)
end

local cases = {}
for _, runtime in ipairs(RUNTIMES) do cases[#cases + 1] = { "known values on " .. runtime, known_values(runtime) } end
cases[#cases + 1] = { "what Summary, providers=[] and meters=[] leave out", summary_depth }
cases[#cases + 1] = { "a cap on series", series_cap }
cases[#cases + 1] = { "joins a shared Meter session with other limits", other_limits }
cases[#cases + 1] = { "an unshared Meter session of another tool", meters_busy }
cases[#cases + 1] = { "puts a shorter interval of another session together", shorter_interval }
return cases
