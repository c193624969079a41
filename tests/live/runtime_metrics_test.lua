-- SPDX-License-Identifier: MIT
-- collect_events kind=runtime-metrics: complete intervals, compared with what the runtime's counters say and with what the target
-- allocated.
local during = require("during")
local h = require("harness")

local RUNTIMES <const> = { "net10.0", "net9.0", "net8.0", "aot" }
local KIND <const> = "runtime-metrics"
local SOURCE <const> = { ["net10.0"] = "meter", ["net9.0"] = "meter", ["net8.0"] = "eventCounters", aot = "meter" }
local METRICS <const> = { "heap", "gen0", "gen1", "gen2", "loh", "poh", "committed", "fragmentation", "allocationRate" }
local SIZES <const> = { ["gen-0-size"] = "gen0", ["gen-1-size"] = "gen1", ["gen-2-size"] = "gen2", ["loh-size"] = "loh",
  ["poh-size"] = "poh" }
local SECONDS <const> = 4

local function data_of(envelope)
  -- the product gives up on a process that tells nothing: on a machine as slow as that nothing is proved
  if envelope.error and envelope.error.detail == "Timeout" then h.too_slow() end
  h.ok(not envelope.error, "no error: " .. h.json.encode(envelope.error or {}))
  return envelope.data.runtimeMetrics
end

local function metric(data, name) return h.ok(h.find(data.metrics, { metric = name }), name) end

local function allocated(data)
  local bytes = 0
  for _, i in ipairs(data.timeline) do bytes = bytes + (i.allocatedBytesPerSecond or 0) * i.seconds end
  return bytes
end

--- 105 MB allocated within the window, once the first rate is known: the intervals add up to that, and little more.
local function known_allocations(skip)
  during.each_runtime(RUNTIMES, skip, function(runtime)
    local target <close> = h.target(runtime, "alloc", 5000, { go = false })
    local envelope, did = during.collect(target, { kind = KIND, durationSeconds = 5, depth = "Detail" }, function()
      h.loop.sleep_ms(2200) -- the meter's first interval tells no rate
      return during.go(target)
    end)
    local data = data_of(envelope)
    h.eq(SOURCE[runtime], data.source, runtime .. ": source")
    local h_, m, s = data.duration:match("^(%d+):(%d+):([%d.]+)$") -- the window is longer on a slow machine
    local seconds = h_ * 3600 + m * 60 + s
    h.ok(data.intervals >= seconds * 0.7 - 1 and data.intervals <= seconds + 1,
      ("%s: an interval a second: %d in %.1f s"):format(runtime, data.intervals, seconds))
    h.eq(0, data.discardedIntervals, "discarded")
    local sum = allocated(data)
    h.ok(sum >= did.bytes and sum < did.bytes + 4e6, ("%s: %.0f bytes in the intervals, %d by its own count"):format(runtime, sum,
      did.bytes))
    for i, name in ipairs(METRICS) do h.eq(name, data.metrics[i].metric, "the nine metrics") end
    h.ok(data.currentAgeSeconds <= 3, "fresh: " .. tostring(data.currentAgeSeconds))
    h.eq(data.timeline[#data.timeline], data.current, "current is the newest")
    local i = data.current
    if SOURCE[runtime] == "meter" then
      h.eq(i.gen0Bytes + i.gen1Bytes + i.gen2Bytes + i.lohBytes + i.pohBytes, i.heapBytes, "heap is the sum of the generations")
    end
    h.ok(i.committedBytes >= i.heapBytes or SOURCE[runtime] == "eventCounters", "committed holds the heap")
    h.eq(0, data.cost.eventsLost, "nothing lost")
    h.no_session(target)
  end)
end

--- After some collections the target is quiet: both ways to ask must tell the same sizes.
local function same_as_counters(skip)
  during.each_runtime(RUNTIMES, skip, function(runtime)
    local target <close> = h.target(runtime, "gcs", 3, { go = false })
    during.go(target)
    local both = h.together {
      function() return h.call("collect_events", { kind = KIND, processId = target.pid, durationSeconds = SECONDS }) end,
      function()
        return h.call("collect_events", { kind = "counters", processId = target.pid, durationSeconds = SECONDS, depth = "Detail",
          providers = { "System.Runtime" } })
      end,
    }
    local data, counters = data_of(both[1]), both[2].data.counters.counters
    local function counter(name) return h.ok(h.find(counters, { provider = "System.Runtime", name = name }), name).value end
    for name, own in pairs(SIZES) do
      h.eq(math.tointeger(counter(name)), metric(data, own).last, runtime .. ": " .. own)
    end
    h.near(counter("gc-committed") * 1e6, 1e6, metric(data, "committed").last, runtime .. ": committed")
    if SOURCE[runtime] == "eventCounters" then
      h.near(counter("gc-heap-size") * 1e6, 3e5, metric(data, "heap").last, runtime .. ": heap of the moment")
    end
    local heap, free = metric(data, "heap").last, metric(data, "fragmentation").last
    h.near(counter("gc-fragmentation"), 1.5, 100 * free / heap, runtime .. ": fragmentation")
  end)
end

local function same_from_the_recording(skip)
  during.each_runtime({ "net10.0", "net8.0" }, skip, function(runtime)
    local target <close> = h.target(runtime, "gcs", 3, { go = false })
    local live, recorded = during.live_and_recorded("runtime_metrics", target, SECONDS)
    h.ok(live.intervals >= 3, "intervals: " .. live.intervals)
    for _, name in ipairs { "processId", "source", "intervals", "discardedIntervals", "metrics", "timeline", "current" } do
      h.eq(live[name], recorded[name], runtime .. ": " .. name)
    end
  end)
end

--- The shared meter collection has one set of limits: whoever comes second joins with those of the first.
local function beside_meters(skip)
  during.each_runtime({ "net10.0", "net9.0" }, skip, function(runtime)
    local target <close> = h.target(runtime, "counters")
    local over = false
    local data, other = table.unpack(h.together {
      function()
        h.wait_for("the other's session", h.START_MS, function() return over or during.sessions(target) > 0 end)
        h.loop.sleep_ms(500)
        if over then h.too_slow() end
        return data_of(h.call("collect_events", { kind = KIND, processId = target.pid, durationSeconds = SECONDS }))
      end,
      function()
        local envelope = h.call("collect_events", { kind = "counters", processId = target.pid, durationSeconds = 8, providers = {},
          meters = { "Lunette.Test" }, depth = "Detail" })
        over = true
        return envelope.data.counters
      end,
    })
    h.ok(data.intervals >= 2, runtime .. ": intervals beside another client: " .. data.intervals)
    h.ok(during.notes(data):find("SharedMeterSession", 1, true), "that it joined: " .. during.notes(data))
    require("known_values").meters(other.meters, 3)
    for _, row in ipairs(other.meters) do h.eq("Lunette.Test", row.meter, "only what was asked for") end
    h.no_session(target)
  end)
end

local function short_window(skip)
  during.each_runtime({ "net10.0", "net8.0" }, skip, function(runtime)
    local target <close> = h.target(runtime, "idle")
    local started = h.loop.now_ms()
    local envelope = h.call("collect_events", { kind = KIND, processId = target.pid, durationSeconds = 1 })
    local data = data_of(envelope)
    h.ok(data.intervals >= 1, runtime .. ": a window of 1 s waits for the first interval")
    if SOURCE[runtime] == "meter" then
      h.ok(envelope.summary:find("no collection yet, so the sizes of the heap are not known", 1, true), "no 0.0 MB: " .. envelope.summary)
    end
    h.ok(h.loop.now_ms() - started < 20000, "but not for long")
    if SOURCE[runtime] == "meter" and data.intervals == 1 then
      h.eq({ nil, 0 }, { metric(data, "allocationRate").last, metric(data, "allocationRate").intervals }, "no rate from one interval")
      h.ok(metric(data, "allocationRate").reason, "and why")
    end
  end)
end

-- A target whose runtime has one of its features switched off.
local function switched_off(runtime, switch)
  local dir = h.scratch() .. "/target"
  h.eq(0, h.ok(h.loop.exec { argv = { "cp", "-r", h.targets .. "/" .. runtime, dir }, timeout_ms = 10000 }).code, "a copy of the target")
  local path = dir .. "/lunette-target.runtimeconfig.json"
  local config = h.ok(h.json.decode(h.ok(h.fs.read(path, 1 << 20))))
  config.runtimeOptions.configProperties = config.runtimeOptions.configProperties or {}
  config.runtimeOptions.configProperties[switch] = false
  local file <close> = assert(io.open(path, "w"))
  file:write(h.json.encode(config))
  file:close()
  return h.start({ dir .. "/lunette-target", "idle" }, "idle")
end

--- A runtime that tells nothing: said once, after the time for the first interval, with what may be the cause.
local function silent_runtime(skip)
  local switches <const> = {
    ["net10.0"] = "System.Diagnostics.Metrics.Meter.IsSupported", ["net8.0"] = "System.Diagnostics.Tracing.EventSource.IsSupported",
  }
  during.each_runtime({ "net10.0", "net8.0" }, skip, function(runtime)
    local target <close> = switched_off(runtime, switches[runtime])
    local started = h.loop.now_ms()
    local envelope = h.call("collect_events", { kind = KIND, processId = target.pid, durationSeconds = 30 })
    local took = h.loop.now_ms() - started
    h.eq({ "EndpointUnavailable", "Timeout" }, { envelope.error.kind, envelope.error.detail }, runtime .. ": " .. h.json.encode(envelope))
    h.ok(envelope.error.message:find("within 5.0 s", 1, true), envelope.error.message)
    h.ok(envelope.error.message:find("EventSourceSupport", 1, true), "the cause: " .. envelope.error.message)
    h.ok(took >= 5000 and took < 25000, ("told after %d ms"):format(took))
    h.no_session(target)
  end)
end

local function target_exits(skip)
  during.each_runtime({ "net10.0", "net8.0" }, skip, function(runtime)
    local target <close> = h.target(runtime, "idle")
    local envelope = during.collect(target, { kind = KIND, durationSeconds = 20, depth = "Detail" }, function()
      h.loop.sleep_ms(3600)
      target:command("quit", "^BYE")
      return true
    end)
    local data = data_of(envelope)
    h.ok(data.intervals >= 2 and #data.timeline == data.intervals, runtime .. ": what came before is kept: " .. data.intervals)
    h.ok(during.notes(data):find("ProcessEnded", 1, true), "the note: " .. during.notes(data))
  end)
end

--- The runtime's collection thread makes its first event source when it collects for the first time; a session that ends at this moment
--- would lock up the runtime's diagnostics. The end is given up on at several moments around it, and then the target still answers.
local function given_up_at_the_first_collection(skip)
  during.each_runtime({ "net10.0" }, skip, function(runtime)
    local server <close> = h.server()
    local rounds = {}
    for i = 1, 6 do
      rounds[i] = function()
        local target <close> = h.target(runtime, "idle")
        local call = h.loop.spawn(function()
          return server:call("collect_events", { kind = KIND, processId = target.pid, durationSeconds = 60 })
        end)
        h.wait_for("the session", h.START_MS, function() return h.connections(target.pid) >= 1 end)
        h.loop.sleep_ms(1000 + i * 12)
        call:cancel("the client goes away")
        h.no_session(target)
        local info = h.ok(server:call("inspect_process", { view = "info", processId = target.pid }))
        h.ok(not info.error, "the target answers: " .. h.json.encode(info.error or {}))
      end
    end
    h.together(rounds)
  end)
end

return {
  { "known allocations are what the intervals add up to, on all runtimes", known_allocations },
  { "the same sizes as the runtime's counters", same_as_counters },
  { "the recording of a session tells the same", same_from_the_recording },
  { "beside another client of the shared meter collection", beside_meters },
  { "a short window", short_window },
  { "a runtime that tells nothing", silent_runtime },
  { "the target exits in the window", target_exits },
  { "given up at the first collection", given_up_at_the_first_collection },
}
