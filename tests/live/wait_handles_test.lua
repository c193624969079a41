-- SPDX-License-Identifier: MIT
-- collect_events kind=wait-handles over targets that wait a known number of times for a known time.
local during = require("during")
local h = require("harness")
local known = require("known_values")
local waits = require("waits")

local RUNTIMES <const> = { "net10.0", "net9.0" } -- .NET 8 tells of no waits
local AOT <const> = { "aot" }
local N <const> = 10 -- of each kind of handle
local SECONDS <const> = 4
local HOLD_MS <const> = 20
local KINDS <const> = { mutex = "WaitOnMutex", semaphore = "WaitOnSemaphore", event = "WaitOnEvent" }

local function of(envelope)
  h.ok(not envelope.error, "no error: " .. h.json.encode(envelope.error or {}))
  return envelope.data.waitHandles
end

--- Each method's waits, as the target measured them.
local function by_method(data, did, runtime)
  for kind, method in pairs(KINDS) do
    local row = h.ok(h.find(data.callSites, { callSiteMethod = ("Lunette.Target.Waits.%s()"):format(method) }), runtime .. ": " .. method)
    h.eq({ N, 1, "WaitHandle" }, { row.waits, row.waitingThreads, row.source }, runtime .. ": " .. method)
    waits.measured(N * HOLD_MS, did[kind .. "_total_ms"], row.totalWaitDuration, runtime .. ": all of " .. method)
    waits.measured(HOLD_MS, did[kind .. "_max_ms"], row.maxWaitDuration, runtime .. ": the longest of " .. method)
    local p50, p95 = waits.ms(row.p50WaitDuration), waits.ms(row.p95WaitDuration)
    h.ok(p50 >= HOLD_MS - 2 and p95 >= p50 and p95 <= waits.ms(row.maxWaitDuration), "in order: " .. h.json.encode(row))
    local stack = table.concat(row.stack, "\n")
    h.ok(stack:find("System.Threading.WaitHandle", 1, true) and stack:find("Lunette.Target.Waits.Serve", 1, true), "its stack: " .. stack)
  end
end

local function known_waits(runtimes, skip)
  during.each_runtime(runtimes, skip, function(runtime)
    local target <close> = h.target(runtime, "waits", N, { go = false })
    local live, recorded, did = during.live_and_recorded("wait_handles", target, waits.seconds(target.runtime, SECONDS), waits.go)
    h.eq({ 3 * N, 3 }, { live.totalWaits, live.waitingThreads }, runtime .. ": waits and threads")
    h.eq({ 0, "WaitHandle", 3 * N }, { live.waitsInsideContention, live.bySource[1].source, live.bySource[1].waits }, runtime)
    local waited = did.mutex_total_ms + did.semaphore_total_ms + did.event_total_ms
    waits.measured(3 * N * HOLD_MS, waited, live.totalWaitDuration, runtime .. ": all")
    if runtime == "aot" then
      h.eq({ 1, "(unknown)" }, { #live.callSites, live.callSites[1].callSiteMethod }, "no names in a program compiled ahead of time")
      waits.has_note(live.notes, "NoNames")
    else
      by_method(live, did, runtime)
    end
    for _, name in ipairs { "totalWaits", "totalWaitDuration", "p50WaitDuration", "p95WaitDuration", "maxWaitDuration", "bySource",
      "callSites" } do
      h.eq(live[name], recorded[name], runtime .. ": " .. name .. " of the recording")
    end
    h.ok(live.cost.events > 0 and live.cost.eventsLost == 0, "the price is said")
    h.no_session(target)
  end)
end

--- Waits inside lock contention are told with it, and both stand in one ranking.
local function with_contention(runtimes, skip)
  during.each_runtime(runtimes, skip, function(runtime)
    local target <close> = h.target(runtime, "holds", 2 * N, { go = false })
    local live, _, did, artifact = during.live_and_recorded("wait_handles", target, waits.seconds(target.runtime, SECONDS), waits.go)
    h.eq(N, live.totalWaits, runtime .. ": waits of the holder")
    h.ok(live.waitsInsideContention >= 2 * N, runtime .. ": waits inside contention: " .. live.waitsInsideContention)
    waits.has_note(live.notes, "InsideContention")
    local payload = require("views.wait-handles-snapshot.whereThreadsWait").project(artifact, { topN = 50 })
    local locks, handles = payload.rows[1], payload.rows[2]
    h.eq({ "LockContention", 2 * N, "WaitHandle", N }, { locks.reason, locks.waits, handles.reason, handles.waits }, runtime)
    waits.measured(2 * N * HOLD_MS, did.wait_total_ms, locks.totalWaitDuration, runtime .. ": contention")
    h.ok(waits.ms(handles.totalWaitDuration) >= N * HOLD_MS, "waits of the holder")
    if runtime ~= "aot" then
      h.eq({ "Lunette.Target.Fights.WaitForGate(int32)", "Lunette.Target.Fights.HoldAndWait()" },
        { locks.callSiteMethod, handles.callSiteMethod }, "where")
    end
  end)
end

local function refused_on_net8(skip)
  local built, why = h.build_target("net8.0")
  if not built then skip(why) end
  local target <close> = h.target("net8.0", "idle")
  local envelope = h.call("collect_events", { kind = "wait-handles", processId = target.pid, durationSeconds = 2 })
  h.eq({ nil, "UnsupportedRuntime" }, { envelope.data, h.ok(envelope.error, "an error").kind }, "refused")
  h.ok(envelope.error.message:find("^Process %d+ runs on %.NET 8%..*%.NET 9 and later do"), envelope.error.message)
  h.eq("contention", envelope.hints[1].suggestedArguments.kind, "what works there")
  h.no_session(target)
end

--- Two windows of the same waits, and a third whose client goes away half-way; the views.
local function at_once(skip)
  waits.with_target("net10.0", "waits", N, skip, function(target, server)
    local before = h.usage(server.pid)
    local function collect()
      return server:call("collect_events", { kind = "wait-handles", processId = target.pid, durationSeconds = SECONDS + 1 })
    end
    local third = h.loop.spawn(collect)
    local results = during.both(target, function() return h.together { collect, collect } end, function(t)
      during.stay_open(t, 3, 300)
      t:command("go", "^GOING")
      third:cancel("half-way")
      return known.did(t)
    end)
    for i = 1, 2 do
      h.eq(3 * N, of(results[i]).totalWaits, "window " .. i)
      h.ok(#h.json.encode(results[i]) <= 16384, "a short answer")
    end
    for _, name in ipairs { "byCallSite", "whereThreadsWait" } do
      local payload = waits.view(server, results[1], name)
      for _, method in pairs(KINDS) do
        h.eq(N, h.find(payload.rows or payload.callSites, { callSiteMethod = ("Lunette.Target.Waits.%s()"):format(method) }).waits, method)
      end
    end
    h.eq(3 * N, waits.view(server, results[1], "summary").totalWaits, "summary")
    h.no_session(target)
    h.settled(server, before)
  end)
end

local function nothing(skip)
  local built, why = h.build_target("net10.0")
  if not built then skip(why) end
  local target <close> = h.target("net10.0", "idle")
  local envelope = h.call("collect_events", { kind = "wait-handles", processId = target.pid, durationSeconds = 2 })
  local data = of(envelope)
  h.eq({ 0, 0, nil }, { data.totalWaits, #data.callSites, data.p50WaitDuration }, "nothing")
  waits.has_note(data.notes, "NoWaits")
  h.eq({ nil, "collect_thread_snapshot" }, { envelope.signals, envelope.hints[1].nextTool }, "signals, and the first hint")
end

local function exits(skip)
  waits.with_target("net10.0", "waits", N, skip, function(target, server)
    local envelope = during.both(target, function()
      return h.ok(server:call("collect_events", { kind = "wait-handles", processId = target.pid, durationSeconds = 30 }))
    end, function(t)
      local did = during.go(t)
      t:kill()
      return did
    end)
    local data = of(envelope)
    waits.has_note(data.notes, "ProcessEnded")
    h.ok(data.totalWaits > 0 and data.totalWaits <= 3 * N, "those that were sent: " .. data.totalWaits)
    h.eq("(unknown)", data.callSites[1].callSiteMethod, "no names from a process that is gone")
  end)
end

return {
  { "known waits on each runtime, live and recorded", function(skip) known_waits(RUNTIMES, skip) end },
  { "waits inside lock contention, and one ranking", function(skip) with_contention(RUNTIMES, skip) end },
  { "known waits of a program compiled ahead of time", function(skip) known_waits(AOT, skip) end },
  { "waits inside lock contention of a program compiled ahead of time", function(skip) with_contention(AOT, skip) end },
  { "a runtime that tells of no waits is refused", refused_on_net8 },
  { "two windows at once, a third that is given up, and the views", at_once },
  { "nothing happens", nothing },
  { "the target exits in the window", exits },
}
