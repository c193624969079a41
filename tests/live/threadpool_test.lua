-- SPDX-License-Identifier: MIT
-- collect_events kind=threadpool over a target that blocks a known number of pool workers.
local during = require("during")
local h = require("harness")
local known = require("known_values")

local RUNTIMES <const> = { "net10.0", "net9.0", "net8.0", "aot" }
local ITEMS <const> = 20
local SECONDS <const> = 5
local PROVENANCE <const> = { ["runtime-observed"] = true, ["carried-forward"] = true }

local function pool_of(envelope)
  h.ok(not envelope.error, "no error: " .. h.json.encode(envelope.error or {}))
  return envelope.data.threadPool
end

local function timeline(data, did)
  local rows = data.workerThreadTimeline
  h.ok(#rows >= 3, "seconds with a known count: " .. #rows)
  h.eq("runtime-observed", rows[1].countProvenance, "the first one was measured")
  local peak = 0
  for i, row in ipairs(rows) do
    h.ok(PROVENANCE[row.countProvenance], "provenance " .. tostring(row.countProvenance))
    h.ok(i == 1 or rows[i - 1].timestamp < row.timestamp, "in order of time")
    peak = math.max(peak, row.count)
  end
  h.ok(peak >= did.threads_most and peak <= did.threads_most + 2, ("%d threads in the events, %d by its own count"):format(peak,
    did.threads_most))
end

local function hill_climbing(data)
  h.ok(#data.hillClimbing >= 1, "the pool changed its size")
  for i, s in ipairs(data.hillClimbing) do
    h.eq({ "runtime-observed", "runtime-observed" }, { s.reasonProvenance, s.newCountProvenance }, "provenance")
    h.eq(i > 1 and "inferred-from-neighbor" or nil, s.oldCountProvenance, "provenance of the old count")
    h.eq(i > 1 and data.hillClimbing[i - 1].newCount or nil, s.oldCount, "old count")
    h.ok(s.reason ~= "Starvation", "work went on, so the runtime did not call it starvation")
  end
  h.eq({ 0, 0 }, { data.evidence.confirmedStarvationCount, data.evidence.confirmedCooperativeBlockingCount }, "evidence")
end

local function origins(data, runtime)
  if runtime == "aot" then
    h.eq(0, #data.workItemOrigins, "origins without stacks")
    h.ok(during.notes(data):find("NoStacks", 1, true), "the note: " .. during.notes(data))
    h.ok(h.json.encode(data.quality.unavailableMechanisms):find("enqueue-stacks", 1, true), "enqueue-stacks")
    return
  end
  local first = h.ok(data.workItemOrigins[1], "an origin: " .. during.notes(data))
  h.eq(ITEMS, first.count, "queued by " .. first.method)
  h.ok(first.method:find("Lunette.Target.BlockedPool.QueueBlockers", 1, true), "by the target: " .. first.method)
end

local function queue_wait(data, did)
  local wait = h.ok(data.queueWait, "time in the queue")
  h.eq({ ITEMS, 0 }, { wait.matched, wait.notDequeued }, "work items that entered and left the queue")
  -- the last item waited for all others, at most threads_most at a time
  local longest = (math.ceil(ITEMS / did.threads_most) - 1) * did.block_ms
  h.ok(wait.maxMs >= 0.9 * longest and wait.maxMs <= did.elapsed_ms, ("the longest wait of %.0f ms"):format(wait.maxMs))
  h.ok(wait.p50Ms <= wait.p95Ms and wait.p95Ms <= wait.maxMs * 1.02, "in order: " .. h.json.encode(wait))
end

local function blocked_workers(skip)
  during.each_runtime(RUNTIMES, skip, function(runtime)
    local target <close> = h.target(runtime, "pool", ITEMS, { go = false })
    local envelope, did = during.collect(target, { kind = "threadpool", durationSeconds = SECONDS, depth = "Detail" })
    local data = pool_of(envelope)
    h.eq({ ITEMS, ITEMS }, { data.totalEnqueueEvents, data.totalDequeueEvents }, runtime .. ": work items")
    h.eq({ did.min_threads, 32767 }, { data.effectiveSettings.workerMinThreads, data.effectiveSettings.workerMaxThreads },
      "limits, told when the pool started in the window")
    timeline(data, did)
    hill_climbing(data)
    origins(data, runtime)
    queue_wait(data, did)
    h.eq(nil, h.find(envelope.signals, { signal = "threadpool.starvation" }), "no starvation")
    local long = h.ok(h.find(envelope.signals, { signal = "threadpool.queue-wait" }), "work waited long")
    h.eq(math.floor(data.queueWait.p95Ms + 0.5), long.buckets[2].magnitude, "how long")
    h.eq(nil, data.iocpThreadTimeline, "no I/O completion threads here")
    h.eq({ false, true, false }, { data.quality.transportLoss, data.quality.supportsAbsence, data.quality.responseProjectionOnly },
      "quality: " .. h.json.encode(data.quality))
    h.ok(data.cost.events > 0 and data.cost.eventsLost == 0, "the price is said")
    h.no_session(target)
  end)
end

local function same_from_the_recording(skip)
  during.each_runtime({ "net10.0", "net9.0", "net8.0" }, skip, function(runtime)
    local target <close> = h.target(runtime, "pool", ITEMS, { go = false })
    local live, recorded = during.live_and_recorded("threadpool", target, SECONDS)
    h.eq(ITEMS, recorded.totalEnqueueEvents, "work items of the recording")
    for _, name in ipairs { "processId", "hillClimbing", "workItemOrigins", "effectiveSettings", "totalEnqueueEvents",
      "totalDequeueEvents", "queueWait", "evidence" } do
      h.eq(live[name], recorded[name], runtime .. ": " .. name)
    end
    h.eq(live.workerThreadTimeline[1], recorded.workerThreadTimeline[1], runtime .. ": the first known count")
  end)
end

local function starving(skip)
  during.each_runtime({ "net10.0", "net8.0" }, skip, function(runtime)
    local target <close> = h.target(runtime, "starve", 40, { go = false })
    local envelope = during.collect(target, { kind = "threadpool", durationSeconds = SECONDS, depth = "Detail" }, function(t)
      return t:command("go", "^GOING")
    end)
    local data = pool_of(envelope)
    local starved = 0
    for _, s in ipairs(data.hillClimbing) do
      if s.reason == "Starvation" then starved = starved + 1 end
    end
    h.ok(starved >= 2, runtime .. ": adjustments for starvation: " .. starved)
    h.eq(starved, data.evidence.confirmedStarvationCount, "evidence")
    local signal = h.ok(h.find(envelope.signals, { signal = "threadpool.starvation" }), "the signal")
    h.eq({ "Starvation", starved }, { signal.buckets[1].key, signal.buckets[1].magnitude }, "its bucket")
    h.ok(data.totalEnqueueEvents >= 400 and data.totalDequeueEvents < 50, ("%d queued, %d taken"):format(data.totalEnqueueEvents,
      data.totalDequeueEvents))
    h.ok(data.workItemOrigins[1].method:find("Lunette.Target.Starve", 1, true), "queued by " .. data.workItemOrigins[1].method)
    h.ok(h.find(envelope.hints, { nextTool = "collect_thread_snapshot" }), "a hint at the blocked threads")
    local waits = h.ok(h.find(envelope.hints, { nextTool = "collect_events" }), "a hint at what they wait for")
    h.eq({ "wait-handles", target.pid }, { waits.suggestedArguments.kind, waits.suggestedArguments.processId }, "its arguments")
  end)
end

local function views_and_depth(skip)
  local built, why = h.build_target("net10.0")
  if not built then skip(why) end
  local target <close> = h.target("net10.0", "pool", ITEMS, { go = false })
  local server <close> = h.server()
  local envelope, did = during.both(target, function()
    return h.ok(server:call("collect_events", { kind = "threadpool", processId = target.pid, durationSeconds = SECONDS }))
  end, during.go)
  local data = pool_of(envelope)
  for _, name in ipairs { "workerThreadTimeline", "iocpThreadTimeline", "hillClimbing" } do
    h.eq(nil, data[name], name .. " at Summary")
  end
  h.ok(data.quality.responseProjectionOnly and data.evidence, "evidence and quality stay")
  h.ok(#h.json.encode(envelope) <= 16384, "a short answer")
  local function view(name)
    local payload = h.ok(server:call("query_snapshot", { handle = envelope.handle, view = name })).data.payload
    h.ok(payload.quality.unavailableMechanisms, name .. " has the quality")
    return payload
  end
  timeline({ workerThreadTimeline = view("timeline").workerThreads }, did)
  hill_climbing { hillClimbing = view("hillClimbing").samples, evidence = data.evidence }
  local origin = view("workItemOrigins").origins[1]
  h.eq(ITEMS, origin.count, "work items by origin")
  local stack = table.concat(origin.stack, "\n")
  h.ok(stack:find("QueueUserWorkItem", 1, true) and stack:find("Lunette.Target.BlockedPool.Do", 1, true), "its stack: " .. stack)
  local summary = view("summary")
  h.eq({ ITEMS, ITEMS, 0 }, { summary.totalEnqueueEvents, summary.totalDequeueEvents, summary.starvationAdjustments }, "summary")
  h.ok(summary.peakWorkerThreadCount >= did.threads_most, "peak")
end

--- Two windows over one target, and a third whose client goes away half-way: neither of the others notices.
local function side_by_side(skip)
  local built, why = h.build_target("net10.0")
  if not built then skip(why) end
  local target <close> = h.target("net10.0", "pool", ITEMS, { go = false })
  local server <close> = h.server()
  local before = h.usage(server.pid)
  local function collect()
    return server:call("collect_events", { kind = "threadpool", processId = target.pid, durationSeconds = SECONDS + 1, depth = "Detail" })
  end
  local third = h.loop.spawn(collect)
  local results = during.both(target, function() return h.together { collect, collect } end, function(t)
    during.stay_open(t, 3, 300)
    t:command("go", "^GOING")
    third:cancel("half-way")
    return known.did(t)
  end)
  for i = 1, 2 do
    local data = pool_of(results[i])
    h.eq({ ITEMS, ITEMS, ITEMS }, { data.totalEnqueueEvents, data.totalDequeueEvents, data.workItemOrigins[1].count }, "window " .. i)
  end
  h.no_session(target)
  h.settled(server, before)
end

local function nothing(skip)
  local built, why = h.build_target("net10.0")
  if not built then skip(why) end
  local target <close> = h.target("net10.0", "idle")
  local envelope = h.call("collect_events", { kind = "threadpool", processId = target.pid, durationSeconds = 2, depth = "Detail" })
  local data = pool_of(envelope)
  h.eq({ 0, 0, 0, 0 }, { data.totalEnqueueEvents, #data.workItemOrigins, #data.workerThreadTimeline, #data.hillClimbing }, "nothing")
  h.eq({ nil, nil, nil }, { data.effectiveSettings, data.queueWait, envelope.signals }, "nothing is made up")
  local notes = during.notes(data)
  for _, word in ipairs { "SettingsNotSent", "NoWorkItems", "NoMeasurement" } do h.ok(notes:find(word, 1, true), word .. ": " .. notes) end
  h.eq({ true, false }, { data.quality.windowOrStartupLimited, data.quality.supportsRegressionConclusions }, "quality")
end

local function exits(skip)
  local built, why = h.build_target("net10.0")
  if not built then skip(why) end
  local target <close> = h.target("net10.0", "starve", 40, { go = false })
  local envelope = during.collect(target, { kind = "threadpool", durationSeconds = 20, depth = "Detail" }, function(t)
    t:command("go", "^GOING")
    h.loop.sleep_ms(2500) -- the runtime looks twice a second, and adds its first thread in the second after
    return t:kill() or true
  end)
  local data = pool_of(envelope)
  h.ok(during.notes(data):find("ProcessEnded", 1, true), "the note: " .. during.notes(data))
  h.ok(data.totalEnqueueEvents >= 400, "what came before is kept: " .. data.totalEnqueueEvents)
  h.eq({ true, false, true }, {
    data.quality.windowOrStartupLimited, data.quality.supportsAbsence, data.quality.supportsPositiveEvidence }, "quality")
end

return {
  { "blocked workers on 10, 9, 8 and NativeAOT", blocked_workers },
  { "the same numbers from the recording of the session", same_from_the_recording },
  { "a starved pool on 10 and 8", starving },
  { "Summary and the views", views_and_depth },
  { "two at once, and a third that is given up half-way", side_by_side },
  { "nothing happens", nothing },
  { "the target exits in the window", exits },
}
