-- SPDX-License-Identifier: MIT
-- collect_events kind=contention over targets that fight for locks a known number of times.
local during = require("during")
local h = require("harness")
local waits = require("waits")

local RUNTIMES <const> = { "net10.0", "net9.0", "net8.0" }
local FIGHTS <const> = 20
local SECONDS <const> = 4
local HOLD_MS <const> = 20
local SITE <const> = "Lunette.Target.Fights.WaitForGate(int32)"

local function figures(data, did, what)
  h.eq({ FIGHTS, 2 }, { data.totalEvents, data.distinctMonitors }, what .. ": contentions and locks")
  waits.measured(FIGHTS * HOLD_MS, did.wait_total_ms, data.totalContentionDuration, what .. ": all of them")
  waits.measured(HOLD_MS, did.wait_max_ms, data.maxContentionDuration, what .. ": the longest")
  local p50 = waits.ms(data.p50ContentionDuration)
  h.ok(p50 >= HOLD_MS - 2 and p50 <= waits.ms(data.maxContentionDuration), what .. ": the middle one, " .. p50)
end

local function single_ones(data, did, runtime)
  h.eq(FIGHTS, #data.events, runtime .. ": rows")
  local locks, last = {}, math.huge
  for _, e in ipairs(data.events) do
    local ms = waits.ms(e.duration)
    h.ok(ms <= last, "longest first")
    last = ms
    locks[e.lockId] = (locks[e.lockId] or 0) + 1
    h.eq(did.waiter, e.contendingThreadId, "who waited")
    -- compiled ahead of time a thread is named by its managed id
    if runtime ~= "aot" then h.eq(did.holder, e.ownerManagedThreadId, "who held it") end
    h.eq(runtime == "aot" and "(unknown)" or SITE, e.callSiteMethod, "where")
  end
  for _, n in pairs(locks) do h.eq(FIGHTS // 2, n, "contentions of one lock") end
end

local function known_fights(runtimes)
  return function(skip)
    during.each_runtime(runtimes, skip, function(runtime)
      local target <close> = h.target(runtime, "fights", FIGHTS, { go = false })
      local live, recorded, did = during.live_and_recorded("contention", target, waits.seconds(runtime, SECONDS), waits.go)
      figures(live, did, runtime)
      single_ones(live, did, runtime)
      h.eq(live.events, recorded.events, runtime .. ": the recording has the same")
      for _, name in ipairs { "totalEvents", "distinctMonitors", "totalContentionDuration", "p50ContentionDuration",
        "p95ContentionDuration", "maxContentionDuration" } do
        h.eq(live[name], recorded[name], runtime .. ": " .. name .. " of the recording")
      end
      waits.no_note(live.notes, "StillWaiting")
      h.ok(live.cost.events > 0 and live.cost.eventsLost == 0, "the price is said")
      h.no_session(target)
    end)
  end
end

--- The owner is seen where it throws (all runtimes) and where it waits (.NET 9 and later) while it holds the lock.
local function owners_seen(skip)
  during.each_runtime({ "net10.0", "net9.0", "net8.0" }, skip, function(runtime)
    local target <close> = h.target(runtime, "holds", FIGHTS, { go = false })
    local _, recorded, did, artifact, again = during.live_and_recorded("contention", target, SECONDS)
    h.eq(FIGHTS, recorded.totalEvents, runtime .. ": contentions")
    local view = require("views.contention-snapshot.byBlame")
    local payload = view.project(artifact, { topN = 50 })
    h.eq({ FIGHTS, 2 }, { payload.followedEvents, payload.returned }, runtime .. ": followed")
    h.eq(payload.locks, view.project(again, { topN = 50 }).locks, runtime .. ": the recording blames the same")
    local held = {}
    for _, lock in ipairs(payload.locks) do
      h.eq({ FIGHTS // 2, 1, SITE }, { lock.eventCount, lock.waitingThreads, lock.waitingAt[1].callSiteMethod }, "the lock")
      for _, owner in ipairs(lock.owners) do
        if owner.evidence ~= "none" then
          h.ok(table.concat(owner.stack, "\n"):find("Fights.HoldGate", 1, true), "HoldGate in " .. table.concat(owner.stack, "\n"))
        end
        h.eq({ did.holder }, owner.ownerThreadIds, "the owner's thread")
        held[owner.evidence .. " " .. owner.callSiteMethod:match("[%w)(]+%(?%)?$")] = owner
      end
    end
    local threw = h.ok(held["holding HoldAndThrow()"], runtime .. ": seen as it threw, in " .. h.json.encode(held))
    h.ok(waits.ms(threw.lateBy) >= HOLD_MS - 1, "it threw before it let go: late by " .. threw.lateBy)
    if runtime == "net8.0" then
      h.ok(waits.ms(h.ok(held["later HoldAndThrow()"], "later").lateBy) >= 2 * HOLD_MS - 2, "its next event")
    else
      local waited = h.ok(held["holding HoldAndWait()"], runtime .. ": seen as it waited, in " .. h.json.encode(held))
      h.eq({ FIGHTS // 2, 1 }, { waited.tenures, waited.share }, "all fights of that lock")
      h.ok(waits.ms(waited.lateBy) < HOLD_MS, "it waited at once: late by " .. waited.lateBy)
    end
  end)
end

--- Four threads about one lock: who gets it has waited for it, so that it is known where it was taken.
local function convoy(skip)
  waits.with_target("net10.0", "contend", 200, skip, function(target, server)
    local envelope = during.both(target, function()
      return h.ok(server:call("collect_events", { kind = "contention", processId = target.pid, durationSeconds = SECONDS,
        depth = "Detail" }))
    end, function(t) return t:command("go", "^GOING") end)
    local data = envelope.data.contention
    h.ok(data.totalEvents > 100 and data.distinctMonitors == 1, "contentions: " .. data.totalEvents)
    local lock = waits.view(server, envelope, "byBlame").locks[1]
    h.eq({ data.totalEvents, 4 }, { lock.eventCount, lock.waitingThreads }, "the lock")
    local owner, share = lock.owners[1], 0
    for _, o in ipairs(lock.owners) do
      share = share + ((o.evidence == "acquired" or o.evidence == "holding") and o.share or 0)
    end
    h.ok(share > 0.8, "where the owner took the lock is known: " .. h.json.encode(lock.owners))
    h.ok(owner.callSiteMethod:find("Lunette.Target.Contend.Take", 1, true), "taken at " .. owner.callSiteMethod)
    h.eq("00:00:00", owner.lateBy, "as it was taken")
    local threads, nobody = 0, 0 -- the runtime does not know the owner of a lock that was let go just then
    for _, o in ipairs(waits.view(server, envelope, "byOwner").owners) do
      if o.ownerManagedThreadId then threads = threads + 1 else nobody = nobody + o.eventCount end
    end
    h.eq(4, threads, "owners")
    h.ok(nobody < 0.1 * data.totalEvents, ("contentions of nobody: %d of %d"):format(nobody, data.totalEvents))
    h.ok(h.find(envelope.signals, { signal = "contention.by-call-site" }), "the signal")
  end)
end

--- Two windows and the runtime's own counter at once, all of the same fights.
local function at_once(skip)
  waits.with_target("net10.0", "fights", FIGHTS, skip, function(target, server)
    local function collect()
      return server:call("collect_events", { kind = "contention", processId = target.pid, durationSeconds = SECONDS + 2 })
    end
    local function count() -- one interval in which all the fights are
      return server:call("collect_events", { kind = "counters", processId = target.pid, durationSeconds = SECONDS + 4, meters = {},
        intervalSeconds = (SECONDS + 2) * h.slowness(), providers = { "System.Runtime" } })
    end
    local results = during.both(target, function() return h.together { collect, collect, count } end, function(t)
      during.stay_open(t, 3, 300)
      return during.go(t)
    end)
    -- three sessions that begin at once may fight inside the runtime, too: the target's own contentions are told by their site
    for i = 1, 2 do
      local site = waits.view(server, results[i], "byCallSite").callSites[1]
      h.eq({ SITE, FIGHTS }, { site.callSiteMethod, site.eventCount }, "window " .. i)
      h.near(FIGHTS, 3, results[i].data.contention.totalEvents, "all contentions of window " .. i)
    end
    local counter = h.find(results[3].data.counters.counters, { name = "monitor-lock-contention-count" })
    h.near(FIGHTS, 3, h.ok(counter, "the counter").value, "monitor-lock-contention-count")
    h.ok(#h.json.encode(results[1]) <= 16384, "a short answer")
    h.eq(0, #results[1].data.contention.events, "no rows at Summary")
    h.no_session(target)
  end)
end

local function nothing(skip)
  local built, why = h.build_target("net10.0")
  if not built then skip(why) end
  local target <close> = h.target("net10.0", "idle")
  local envelope = h.call("collect_events", { kind = "contention", processId = target.pid, durationSeconds = 2 })
  local data = envelope.data.contention
  h.eq({ 0, 0, "00:00:00" }, { data.totalEvents, data.distinctMonitors, data.maxContentionDuration }, "nothing")
  waits.has_note(data.notes, "NoContention")
  h.eq(nil, envelope.signals, "signals")
  h.eq("counters", envelope.hints[1].suggestedArguments.kind, "the first hint")
end

local function exits(skip)
  waits.with_target("net10.0", "fights", FIGHTS, skip, function(target, server)
    local envelope = during.both(target, function()
      return h.ok(server:call("collect_events", { kind = "contention", processId = target.pid, durationSeconds = 30, depth = "Detail" }))
    end, function(t)
      local did = during.go(t)
      t:kill()
      return did
    end)
    local data = h.ok(envelope.data, "an answer: " .. h.json.encode(envelope)).contention
    waits.has_note(data.notes, "ProcessEnded")
    h.ok(data.totalEvents > 0 and data.totalEvents <= FIGHTS, "those that were sent: " .. data.totalEvents)
    waits.has_note(data.notes, "NoNames")
    h.eq("(unknown)", data.events[1].callSiteMethod, "no names from a process that is gone")
  end)
end

return {
  { "known fights on each runtime, live and recorded", known_fights(RUNTIMES) },
  { "known fights of a program compiled ahead of time", known_fights { "aot" } },
  { "owners are seen where they throw and wait", owners_seen },
  { "a convoy: owners are known by how they took the lock", convoy },
  { "two windows and the counter at once", at_once },
  { "nothing happens", nothing },
  { "the target exits in the window", exits },
}
