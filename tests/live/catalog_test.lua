-- SPDX-License-Identifier: MIT
-- collect_events kind=catalog over targets that write known events.
local during = require("during")
local events = require("lunette.events")
local h = require("harness")
local known = require("known_values")

local RUNTIMES <const> = { "net10.0", "net9.0", "net8.0", "aot" }
local RUNTIME <const> = "Microsoft-Windows-DotNETRuntime"
local N <const> = 50
local SECONDS <const> = 3
local DEMO <const> = "Lunette-Demo"
local LISTENERS <const> = "Microsoft-Diagnostics-DiagnosticSource"

local function catalog_of(envelope)
  h.ok(not envelope.error, "no error: " .. h.json.encode(envelope.error or {}))
  return envelope.data.catalog
end

local function row(provider, event, level, count)
  return { providerName = provider, eventName = event, level = level, count = count }
end

local function named_source(skip)
  during.each_runtime(RUNTIMES, skip, function(runtime)
    local target <close> = h.target(runtime, "source", N, { go = false })
    local envelope, did = during.collect(target, { kind = "catalog", durationSeconds = SECONDS, providers = { DEMO }, depth = "Detail",
      maxEvents = 20 })
    local data = catalog_of(envelope)
    h.eq({
      row(DEMO, "Order/Start", "Informational", did.order_start), row(DEMO, "Order/Stop", "Informational", did.order_stop),
      row(DEMO, "Ping", "Informational", did.ping), row(DEMO, "Bad", "Warning", did.bad),
    }, data.catalog, runtime .. ": the catalog")
    h.eq({ did.events, 20, true, { DEMO } }, { data.totalEvents, #data.sample, data.truncated, data.providers }, runtime .. ": the rest")
    h.eq("", during.notes(data), "notes")
    h.eq(nil, h.json.encode(envelope):find("ping 1", 1, true), "no payload value")
    h.eq(0, data.cost.eventsLost, "nothing lost")
    h.no_session(target)
  end)
end

--- The curated sources: what the collector writes of known collections, and that asking forces none.
local function curated_sources(skip)
  during.each_runtime({ "net10.0", "net9.0", "net8.0" }, skip, function(runtime)
    local target <close> = h.target(runtime, "gcs", 3, { go = false })
    local envelope, did = during.collect(target, { kind = "catalog", durationSeconds = SECONDS, depth = "Detail" })
    local data = catalog_of(envelope)
    local start, stop = h.find(data.catalog, { eventName = "GC/Start" }), h.find(data.catalog, { eventName = "GC/Stop" })
    h.eq({ did.gen0, did.gen0 }, { h.ok(start, "GC/Start").count, h.ok(stop, "GC/Stop").count }, runtime .. ": collections")
    h.eq({ RUNTIME, "System.Runtime", "Microsoft-Diagnostics-DiagnosticSource", "Microsoft-Extensions-Logging",
      "System.Threading.Tasks.TplEventSource" }, data.providers, "the curated set")
    for _, r in ipairs(data.catalog) do
      h.ok(r.level ~= "Verbose", r.eventName .. " is above Informational")
      h.ok(not r.eventName:find("Bulk", 1, true), "no heap walk: " .. r.eventName)
    end
    h.ok(h.find(data.catalog, { providerName = "System.Runtime", eventName = "ProcessorCount" }), "System.Runtime speaks when enabled")
    h.ok(during.notes(data):find("ProviderSilent: no event came from Microsoft%-Diagnostics"), "who was silent: " .. during.notes(data))
  end)
end

-- The collector inside this process, for what the command line cannot ask: to keep the stream.
local function run(more)
  local ctx = { transport = "cli", era = "modern", in_task = false, principal = { name = "live" } }
  function ctx.can() return false end
  function ctx.progress() end
  local given = { maxEvents = 10, durationSeconds = SECONDS, depth = "Detail" }
  for name, value in pairs(more) do given[name] = value end
  local payload, extras = require("collectors.catalog").run(ctx, given)
  return h.ok(payload, tostring(extras and extras.message))
end

--- Listeners of an ASP.NET Core server: their events are named, and the target was not asked for a single value.
local function web_events(skip)
  local built, why = h.build_target("net10.0")
  if not built then skip(why) end
  local target <close> = h.target("net10.0", "web", 5)
  local path = h.scratch() .. "/session.nettrace"
  local data = run { processId = target.pid, save_to = path }
  local seen = h.ok(h.find(data.catalog, { providerName = LISTENERS, eventName = "Event" }), "listener events")
  h.ok(seen.count >= 10, "of some requests: " .. seen.count)
  local stream <close> = h.ok(events.open { path = path, want = { { provider = LISTENERS, event = "Event" } } })
  local n = 0
  while true do
    local batch = stream:next(60000)
    if not batch then break end
    for _, event in ipairs(batch) do
      n = n + 1
      h.ok(event.fields.EventName ~= "", "its name")
      h.eq(nil, next(event.fields.Arguments), "values of " .. event.fields.EventName)
    end
  end
  h.eq(seen.count, n, "events in the stream")
end

local function same_from_the_recording(skip)
  during.each_runtime({ "net10.0", "net9.0", "net8.0" }, skip, function(runtime)
    local target <close> = h.target(runtime, "source", N, { go = false })
    local path = h.scratch() .. "/session.nettrace"
    local live, did = during.both(target, function()
      local window = h.window_begins(target.pid, SECONDS * h.slowness())
      local payload = run { processId = target.pid, save_to = path, providers = { DEMO }, durationSeconds = SECONDS * h.slowness() }
      h.window_ends(window, true)
      return payload
    end, during.go)
    local recorded = run { traceFilePath = path, providers = { DEMO } }
    h.eq(did.events, recorded.totalEvents, runtime .. ": events of the recording")
    for _, name in ipairs { "processId", "totalEvents", "catalog", "sample", "truncated" } do
      h.eq(live[name], recorded[name], runtime .. ": " .. name)
    end
  end)
end

local function nothing_happens(skip)
  local built, why = h.build_target("net10.0")
  if not built then skip(why) end
  local target <close> = h.target("net10.0", "idle")
  local data = catalog_of(h.call("collect_events",
    { kind = "catalog", processId = target.pid, durationSeconds = 1, providers = { DEMO, "Nobody" } }))
  h.eq({ 0, 0, false }, { data.totalEvents, #data.catalog, data.truncated }, "nothing")
  h.ok(during.notes(data):find("ProviderSilent: no event came from Lunette-Demo, Nobody.", 1, true), "the note: " .. during.notes(data))
end

--- As fast as two threads can write: what the runtime could not keep is said, and adds up with what came.
local function flood(skip)
  local built, why = h.build_target("net10.0")
  if not built then skip(why) end
  local target <close> = h.target("net10.0", "flood", 0, { go = false })
  local envelope, did = during.collect(target, { kind = "catalog", durationSeconds = 4, providers = { "Lunette-Flood" } }, function()
    target:command("go", "^GOING")
    h.loop.sleep_ms(1500)
    target:command("stop")
    return known.did(target)
  end)
  local data = catalog_of(envelope)
  h.ok(did.events > 100000, "a flood of " .. did.events)
  h.eq(did.events, data.totalEvents + data.cost.eventsLost, "what came and what was lost")
  h.eq(data.cost.eventsLost > 0, during.notes(data):find("EventsLost", 1, true) ~= nil, "a loss is said: " .. during.notes(data))
end

local function target_exits(skip)
  local built, why = h.build_target("net10.0")
  if not built then skip(why) end
  local target <close> = h.target("net10.0", "source", N, { go = false })
  local envelope, did = during.collect(target, { kind = "catalog", durationSeconds = 20, providers = { DEMO } }, function()
    local done = during.go(target)
    target:command("quit", "^BYE")
    return done
  end)
  local data = catalog_of(envelope)
  h.eq(did.events, data.totalEvents, "what came before is kept")
  h.ok(during.notes(data):find("ProcessEnded", 1, true), "the note: " .. during.notes(data))
end

return {
  { "the events of a named source, with their counts, on all runtimes", named_source },
  { "the curated sources tell of known collections and force none", curated_sources },
  { "names of listener events, without their values", web_events },
  { "a flood: what came and what was lost add up", flood, alone = true },
  { "the recording of a session tells the same", same_from_the_recording },
  { "nothing happens", nothing_happens },
  { "the target exits in the window", target_exits },
}
