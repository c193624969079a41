-- SPDX-License-Identifier: MIT
-- collect_events kind=gc over targets that collect a known number of times, with GC.CollectionCount as the truth.
local during = require("during")
local h = require("harness")

local ALL <const> = { "net10.0", "net9.0", "net8.0", "aot" }
local SECONDS <const> = 4

local function gc_of(envelope)
  h.ok(not envelope.error, "no error: " .. h.json.encode(envelope.error or {}))
  return envelope.data.gc
end

local function ms(timespan)
  local hours, minutes, seconds = timespan:match("^(%d+):(%d+):([%d.]+)$")
  return (hours * 3600 + minutes * 60 + seconds) * 1000
end

local function sum(rows, member)
  local total = 0
  for _, row in ipairs(rows) do total = total + ms(row[member]) end
  return total
end

--- GC.CollectionCount counts a collection for its generation and all below; the events count it once.
local function by_generation(did) return { did.gen0 - did.gen1, did.gen1 - did.gen2, did.gen2 } end

local function counts(gc)
  local list = {}
  for i, row in ipairs(gc.generations) do list[i] = row.count end
  return list
end

local function clean(gc, what)
  h.eq({ "no-detected-loss" }, gc.suspension.quality, what .. ": quality of the suspensions")
  h.eq({ "no-detected-loss" }, gc.collectionQuality, what .. ": quality of the collections")
  h.eq("available", gc.suspension.measurementStatus, what .. ": status")
  h.eq("", table.concat(gc.notes, " "), what .. ": notes")
  h.ok(gc.cost and gc.cost.events > 0 and gc.cost.eventsLost == 0, what .. ": the price: " .. h.json.encode(gc.cost or {}))
end

local function known_collections(skip)
  local server <close> = h.server()
  during.each_runtime(ALL, skip, function(runtime)
    local target <close> = h.target(runtime, "gcs", 5, { go = false })
    local slowness -- as it is when the call is made: a case beside may change it
    local envelope, did = during.both(target, function()
      slowness = h.slowness()
      return h.ok(server:call("collect_events", { kind = "gc", processId = target.pid, durationSeconds = SECONDS, depth = "Detail" }))
    end, during.go)
    local gc = gc_of(envelope)
    clean(gc, runtime)
    h.eq({ 5, 5, 5, 20 }, { did.asked0, did.asked1, did.asked2, did.gen0 }, runtime .. ": what the target did")
    h.eq(did.gen0, gc.totalCollections, runtime .. ": collections")
    h.eq(by_generation(did), counts(gc), runtime .. ": by generation")
    h.eq({ did.induced0, did.natural0 }, { gc.reasons.Induced, gc.reasons.AllocSmall }, runtime .. ": induced and natural")
    h.near(sum(gc.events, "pauseDuration"), 0.01, ms(gc.totalPauseTime), runtime .. ": elapsed in all")
    -- all of them blocking: one suspension around each
    h.eq(did.gen0, #gc.suspension.intervals, runtime .. ": suspensions")
    h.near(sum(gc.suspension.intervals, "duration"), 0.01, ms(gc.suspension.totalSuspensionTime), runtime .. ": suspended in all")
    for i, interval in ipairs(gc.suspension.intervals) do
      h.ok(ms(interval.duration) > ms(gc.events[i].pauseDuration), runtime .. ": a blocking collection lies within its suspension")
      h.eq({ 1, true }, { interval.reason, interval.isReliable }, runtime .. ": reason 1, reliable")
    end
    h.eq(did.gen0, #gc.heapStats, runtime .. ": heap samples")
    for _, sample in ipairs(gc.heapStats) do h.ok(sample.totalHeapBytes > 1000 and sample.gcHandleCount > 0, "a heap of some size") end
    h.eq(SECONDS * 1000 * slowness, ms(gc.requestedDuration), runtime .. ": as asked")
    local observed = ms(gc.duration) / slowness
    h.ok(observed >= SECONDS * 1000 - 100 and observed < 2 * SECONDS * 1000, runtime .. ": as observed: " .. gc.duration)
    h.no_session(target)
  end)
end

local function background(skip)
  local server <close> = h.server()
  during.each_runtime(ALL, skip, function(runtime)
    local target <close> = h.target(runtime, "bgc", 3, { go = false })
    local envelope, did = during.both(target, function()
      return h.ok(server:call("collect_events", { kind = "gc", processId = target.pid, durationSeconds = SECONDS, depth = "Detail" }))
    end, during.go)
    local gc = gc_of(envelope)
    clean(gc, runtime)
    h.eq({ 3, 3 }, { did.background, gc.totalCollections }, runtime .. ": background collections")
    for _, event in ipairs(gc.events) do h.eq({ 2, "BackgroundGC" }, { event.generation, event.type }, runtime .. ": type") end
    h.eq(6, #gc.suspension.intervals, runtime .. ": two suspensions each")
    local suspended, elapsed = ms(gc.suspension.totalSuspensionTime), ms(gc.totalPauseTime)
    h.ok(suspended < elapsed, ("%s: suspended for %g ms of %g"):format(runtime, suspended, elapsed))
    if suspended >= elapsed / 2 then h.too_slow() end -- they run beside the program for the most part, if they are let
    local rows = h.ok(server:call("query_snapshot", { handle = envelope.handle, view = "byGeneration" })).data.payload.byGeneration
    h.eq({ 0, 0, 0, 3 }, { rows[1].count, rows[2].count, rows[3].count, rows[4].count }, runtime .. ": by generation")
    h.near(ms(gc.totalPauseTime), 0.01, ms(rows[4].totalElapsed), runtime .. ": elapsed of the background")
    h.ok(ms(rows[4].concurrentElapsed) > 0 and ms(rows[4].concurrentElapsed) < ms(rows[4].totalElapsed), runtime .. ": concurrent part")
  end)
end

local function same_from_the_recording(skip)
  during.each_runtime(ALL, skip, function(runtime)
    local target <close> = h.target(runtime, "gcs", 4, { go = false })
    local live, recorded, did = during.live_and_recorded("gc", target, SECONDS)
    h.eq(did.gen0, recorded.totalCollections, runtime .. ": collections of the recording")
    for _, name in ipairs { "processId", "totalCollections", "totalPauseTime", "maxPauseTime", "generations", "reasons",
      "collectionQuality", "events", "heapStats", "droppedEvents", "droppedHeapStats" } do
      h.eq(live[name], recorded[name], runtime .. ": " .. name)
    end
    for _, name in ipairs { "measurementStatus", "totalSuspensionTime", "maxSuspensionTime", "p50SuspensionTime", "p95SuspensionTime",
      "acquisitionTime", "restartTime", "intervals", "quality" } do
      h.eq(live.suspension[name], recorded.suspension[name], runtime .. ": suspension." .. name)
    end
  end)
end

local function cap_and_views(skip)
  local built, why = h.build_target("net10.0")
  if not built then skip(why) end
  local server <close> = h.server()
  local target <close> = h.target("net10.0", "gcs", 6, { go = false })
  local envelope, did = during.both(target, function()
    return h.ok(server:call("collect_events", { kind = "gc", processId = target.pid, durationSeconds = 3, maxEvents = 2 }))
  end, during.go)
  local gc = gc_of(envelope)
  h.eq({ did.gen0, by_generation(did) }, { gc.totalCollections, counts(gc) }, "exact past the cap")
  h.eq({ did.gen0 - 2, did.gen0 - 2, did.gen0 - 2 }, { gc.droppedEvents, gc.droppedHeapStats, gc.suspension.droppedIntervals }, "dropped")
  h.eq("available", gc.suspension.measurementStatus, "the cap does not touch the measurement")
  h.ok(#h.json.encode(envelope) <= 16384, "a short answer")
  local function view(name, more)
    local arguments = { handle = envelope.handle, view = name }
    for k, v in pairs(more or {}) do arguments[k] = v end
    return h.ok(server:call("query_snapshot", arguments)).data.payload
  end
  local n = 0
  for _, bucket in ipairs(view("pauseHistogram").buckets) do n = n + bucket.count end
  h.eq(did.gen0, n, "every suspension is in the histogram")
  h.eq(6, view("longestPauses", { topN = 6 }).returned, "the longest are not only the retained")
  h.eq(2, view("timeline").returned, "the retained collections")
  h.eq({ 2, did.gen0 }, { view("events").retainedCollections, view("summary").totalCollections }, "retained of all")
  h.eq(2, view("heap-stats").returned, "the retained samples")
end

local function nothing(skip)
  local built, why = h.build_target("net10.0")
  if not built then skip(why) end
  local target <close> = h.target("net10.0", "idle")
  local envelope = h.call("collect_events", { kind = "gc", processId = target.pid, durationSeconds = 2 })
  local gc = gc_of(envelope)
  h.eq({ 0, "00:00:00", "available", 0 },
    { gc.totalCollections, gc.suspension.totalSuspensionTime, gc.suspension.measurementStatus, gc.suspension.fullySuspendedPercent },
    "a quiet window is a measured zero")
  h.eq(nil, envelope.signals, "no signal")
  h.eq("", table.concat(gc.notes, " "), "no note")
end

local function exits(skip)
  local built, why = h.build_target("net10.0")
  if not built then skip(why) end
  local target <close> = h.target("net10.0", "gcs", 5, { go = false })
  local envelope, did = during.collect(target, { kind = "gc", durationSeconds = 20 }, function(t)
    local done = during.go(t)
    t:command("quit", "^BYE")
    return done
  end)
  local gc = gc_of(envelope)
  h.eq(did.gen0, gc.totalCollections, "what came before is kept")
  h.ok(during.notes(gc):find("ProcessEnded", 1, true), "the note: " .. during.notes(gc))
  h.eq({ "degraded", { "ended-early" } }, { gc.suspension.measurementStatus, gc.suspension.quality }, "a lower bound")
  h.ok(ms(gc.duration) < 15000, "observed, not requested: " .. gc.duration)
end

local function two_at_once(skip)
  local built, why = h.build_target("net10.0")
  if not built then skip(why) end
  local server <close> = h.server()
  local target <close> = h.target("net10.0", "gcs", 5, { go = false })
  local function collect()
    return h.ok(server:call("collect_events", { kind = "gc", processId = target.pid, durationSeconds = SECONDS, depth = "Detail" }))
  end
  local both, did = during.both(target, function() return h.together { collect, collect } end, function()
    h.wait_for("both sessions", h.START_MS, function() return during.sessions(target) == 2 end)
    return during.go(target)
  end)
  local first, second = gc_of(both[1]), gc_of(both[2])
  h.eq(did.gen0, first.totalCollections, "collections of the first")
  h.eq({ first.totalCollections, first.generations, first.reasons }, { second.totalCollections, second.generations, second.reasons },
    "both see the same")
  h.near(ms(first.totalPauseTime), 1, ms(second.totalPauseTime), "elapsed: each session has times of its own")
  h.near(ms(first.suspension.totalSuspensionTime), 1, ms(second.suspension.totalSuspensionTime), "suspended")
  local diff = h.ok(server:call("query_snapshot",
    { handle = both[1].handle, view = "diff", comparisonHandles = { both[2].handle }, mode = "dispersion" })).data.payload
  h.eq({ "uniform", 2 }, { diff.verdict, diff.captureCount }, "two windows of the same are alike: " .. diff.headline)
end

--- A call that was acknowledged.
local function induced(server, target, more)
  local arguments = { kind = "gc", processId = target.pid, durationSeconds = 3, induce = true, depth = "Detail" }
  for k, v in pairs(more or {}) do arguments[k] = v end
  local preview = h.ok(server:call("collect_events", arguments))
  h.ok(preview.safetyApproval and not preview.data, "nothing is done before it is acknowledged")
  return h.ok(server:call("collect_events", preview.hints[1].suggestedArguments))
end

-- Once when the session opens; .NET 8 and 9 once more when it ends.
local FORCED <const> = { ["net10.0"] = 1, aot = 1, ["net9.0"] = 2, ["net8.0"] = 2 }

local function forced(skip)
  local server <close> = h.server()
  during.each_runtime(ALL, skip, function(runtime)
    local target <close> = h.target(runtime, "idle")
    local gc = gc_of(induced(server, target))
    h.eq({ FORCED[runtime], true, "thread" }, { gc.induced.collections, gc.induced.completed, gc.induced.attribution },
      runtime .. ": forced")
    h.eq({ 1, FORCED[runtime] - 1 }, { gc.induced.collectionsAtStart, gc.induced.collectionsAtEnd }, runtime .. ": at its start and end")
    h.eq({ FORCED[runtime], { 0, 0, FORCED[runtime] }, FORCED[runtime] }, { gc.totalCollections, counts(gc), gc.reasons.Induced },
      runtime .. ": nothing else happened")
    for _, event in ipairs(gc.events) do h.eq("NonConcurrentGC", event.type, runtime .. ": blocking") end
    h.ok(gc.induced.sessionMs < 10000, runtime .. ": the session was short: " .. gc.induced.sessionMs)
    h.ok(during.notes(gc):find("Induced:", 1, true), "the note")
    h.no_session(target)
    h.eq(0, gc_of(h.ok(server:call("collect_events", { kind = "gc", processId = target.pid, durationSeconds = 1 }))).totalCollections,
      runtime .. ": later sessions force nothing")
  end)
end

--- Its own collections are told from those that the program itself asks for.
local function forced_beside_others(skip)
  local server <close> = h.server()
  during.each_runtime({ "net10.0", "net8.0" }, skip, function(runtime)
    local target <close> = h.target(runtime, "gcs", 5, { go = false })
    local envelope, did = during.both(target, function() return induced(server, target, { durationSeconds = 4 }) end, during.go)
    local gc = gc_of(envelope)
    h.eq({ FORCED[runtime], "thread" }, { gc.induced.collections, gc.induced.attribution }, runtime .. ": forced")
    h.ok(gc.reasons.Induced >= did.asked0 * 3 + FORCED[runtime], runtime .. ": the program's own too: " .. gc.reasons.Induced)
  end)
end

local function cancelled(skip)
  local built, why = h.build_target("net10.0")
  if not built then skip(why) end
  local server <close> = h.server()
  local target <close> = h.target("net10.0", "gcs", 3, { go = false })
  local before = h.usage(server.pid)
  local call = h.loop.spawn(function()
    return server:call("collect_events", { kind = "gc", processId = target.pid, durationSeconds = 60 })
  end)
  h.wait_for("the session", h.START_MS, function() return during.sessions(target) > 0 end)
  during.go(target)
  call:cancel("the client goes away")
  h.no_session(target)
  h.settled(server, before)
end

return {
  { "known collections on 10, 9, 8 and NativeAOT", known_collections },
  { "background collections", background },
  { "the same numbers from the recording of the session", same_from_the_recording },
  { "the cap and the views", cap_and_views },
  { "nothing happens", nothing },
  { "the target exits in the window", exits },
  { "two at once", two_at_once },
  { "induce forces a collection, counted", forced },
  { "induce beside collections of the program", forced_beside_others },
  { "a cancelled call leaves nothing", cancelled },
}
