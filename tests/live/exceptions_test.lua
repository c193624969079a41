-- SPDX-License-Identifier: MIT
-- collect_events kind=exceptions over a target that throws a known number of known exceptions, on every runtime.
local during = require("during")
local events = require("lunette.events")
local h = require("harness")

local RUNTIMES <const> = { "net10.0", "net9.0", "net8.0", "aot" }
local N <const> = 10
local SECONDS <const> = 3
-- Of each type: the throws for each of N, the method that throws, the HRESULT, the message before its number, flags.
local THROWN <const> = {
  { "Lunette.Target.OrderException", 3, "ThrowOrder", "0x80131500", "order", { "hasInner" } },
  { "System.ArgumentException", 2, "ThrowArgument", "0x80070057", "argument" },
  { "System.InvalidOperationException", 1, "ThrowInvalid", "0x80131509", "invalid" },
}

local function exceptions_of(envelope)
  h.ok(not envelope.error, "no error: " .. h.json.encode(envelope.error or {}))
  return envelope.data.exceptions
end

local function by_type(n)
  local list = {}
  for i, t in ipairs(THROWN) do list[i] = { exceptionType = t[1], count = n * t[2] } end
  return list
end

--- Each throw of a kind, in order, on the thread that threw it and with the methods on its stack.
local function rows_are_right(recent, did, runtime)
  local seen = {}
  for _, row in ipairs(recent) do
    local t
    for _, candidate in ipairs(THROWN) do t = candidate[1] == row.exceptionType and candidate or t end
    h.ok(t, "a type that was thrown: " .. row.exceptionType)
    seen[t[1]] = (seen[t[1]] or 0) + 1
    h.eq({ ("%s %d"):format(t[5], seen[t[1]]), t[4], did.thread }, { row.exceptionMessage, row.exceptionHResult, row.threadId }, runtime)
    if runtime == "aot" then -- it tells neither flags nor the methods' names
      h.eq({ nil, nil }, { row.flags, row.stack }, "flags and stack")
    else
      h.eq(t[6], row.flags, runtime .. ": flags")
      h.eq({ ("Lunette.Target.Throwing.%s(int32)"):format(t[3]), "Lunette.Target.Throwing.Do()", "Lunette.Target.Work.Body()" },
        { row.stack[1], row.stack[3], row.stack[4] }, runtime .. ": stack")
    end
  end
end

--- The sum of the runtime's own counter over a session of its own, once it is what it must be, and one interval more.
local function counter_of(target, expected)
  local sum, source <close> = 0, assert(events.open {
    pid = target.pid, providers = { { name = "System.Runtime", args = "EventCounterIntervalSec=1" } },
    want = { { provider = "System.Runtime", event = "EventCounters" } },
  })
  local give_up, reached = h.loop.now_ms() + 3 * h.START_MS, nil
  while h.loop.now_ms() < (reached or give_up) do
    for _, e in ipairs(source:next(100) or {}) do
      if e.fields.Payload.Name == "exception-count" then sum = sum + e.fields.Payload.Increment end
    end
    reached = reached or sum >= expected and h.loop.now_ms() + 1500
  end
  source:stop(5000)
  return sum
end

local function known_throws(skip)
  during.each_runtime(RUNTIMES, skip, function(runtime)
    local target <close> = h.target(runtime, "throw", N, { go = false })
    local counted = {}
    local counting = h.loop.spawn(function() counted.sum = counter_of(target, 6 * N) end)
    h.wait_for("the counter's session", h.START_MS, function() return during.sessions(target) == 1 end)
    local envelope, did = during.collect(target, { kind = "exceptions", durationSeconds = SECONDS, depth = "Detail" })
    local e = exceptions_of(envelope)
    h.eq({ 6 * N, 6 * N, by_type(N) }, { did.thrown, e.totalExceptions, e.byType }, runtime .. ": counts")
    h.eq({ 6 * N, 100, target.pid }, { #e.recent, e.recentCap, e.processId }, runtime .. ": rows")
    rows_are_right(e.recent, did, runtime)
    h.eq("", during.notes(e), runtime .. ": notes")
    h.ok(e.cost.events >= 6 * N and e.cost.eventsLost == 0, "the price is said")
    local signal = h.ok(h.find(envelope.signals, { signal = "exceptions.by-type" }), "the signal")
    h.eq({ THROWN[1][1], 3 * N }, { signal.buckets[1].key, signal.buckets[1].magnitude }, "its bucket")
    h.ok(not h.find(envelope.signals, { signal = "exceptions.by-throw-site" }), "never by throw site")
    counting:await()
    h.eq(6 * N, math.tointeger(counted.sum), runtime .. ": the runtime's own exception-count")
    h.no_session(target)
  end)
end

local function same_from_the_recording(skip)
  during.each_runtime(RUNTIMES, skip, function(runtime)
    local target <close> = h.target(runtime, "throw", N, { go = false })
    local live, recorded = during.live_and_recorded("exceptions", target, SECONDS)
    h.eq(6 * N, recorded.totalExceptions, runtime .. ": exceptions of the recording")
    for _, name in ipairs { "processId", "totalExceptions", "byType", "recent", "recentCap", "notes" } do
      h.eq(live[name], recorded[name], runtime .. ": " .. name)
    end
  end)
end

local function storm(skip)
  local built, why = h.build_target("net10.0")
  if not built then skip(why) end
  local n = 3000
  local target <close> = h.target("net10.0", "throw", n, { go = false })
  local server <close> = h.server()
  local function collect(max_recent)
    return function()
      return h.ok(server:call("collect_events",
        { kind = "exceptions", processId = target.pid, durationSeconds = 6, depth = "Detail", maxRecent = max_recent }))
    end
  end
  local results, did = during.both(target, function() return h.together { collect(1), collect(150) } end, function(t)
    during.stay_open(t, 2, 250)
    return during.go(t)
  end)
  h.eq(6 * n, did.thrown, "thrown")
  for i, kept in ipairs { 1, 150 } do
    local e = exceptions_of(results[i])
    h.eq({ 6 * n, by_type(n) }, { e.totalExceptions, e.byType }, "exact past the cap, for each of two at once")
    h.eq({ kept, kept, "invalid 1" }, { e.recentCap, #e.recent, e.recent[1].exceptionMessage }, "the first rows")
  end
  local recent = h.ok(server:call("query_snapshot", { handle = results[2].handle, view = "recent", topN = 2 })).data.payload
  h.eq({ 6 * n, 150, 2, "invalid 2" }, { recent.totalExceptions, recent.recentCap, recent.returned, recent.recent[2].exceptionMessage },
    "the view")
  local sites = h.ok(server:call("query_snapshot", { handle = results[2].handle, view = "byThrowSite" })).data.payload
  h.eq({ 6 * n, { exceptionType = THROWN[1][1], frame = "Lunette.Target.Throwing.ThrowOrder(int32)", count = 3 * n } },
    { sites.resolvedExceptions, sites.throwSites[1] }, "throw sites")
  h.no_session(target)
end

local function nothing_happens(skip)
  during.each_runtime(RUNTIMES, skip, function(runtime)
    local target <close> = h.target(runtime, "idle")
    local envelope = h.call("collect_events", { kind = "exceptions", processId = target.pid, durationSeconds = 2 })
    local e = exceptions_of(envelope)
    h.eq({ 0, 0, 0, "" }, { e.totalExceptions, #e.byType, #e.recent, during.notes(e) }, runtime .. ": nothing")
    h.eq(nil, envelope.signals, "no signal")
    h.eq("gc", envelope.hints[1].suggestedArguments.kind, "a hint elsewhere")
    h.no_session(target)
  end)
end

local function target_exits(skip)
  during.each_runtime(RUNTIMES, skip, function(runtime)
    local target <close> = h.target(runtime, "throw", N, { go = false })
    local envelope = during.collect(target, { kind = "exceptions", durationSeconds = 20 }, function(t)
      local did = during.go(t)
      t:command("quit", "^BYE")
      return did
    end)
    local e = exceptions_of(envelope)
    h.eq({ 6 * N, by_type(N) }, { e.totalExceptions, e.byType }, runtime .. ": what came before the end")
    h.ok(during.notes(e):find("ProcessEnded", 1, true), "the note: " .. during.notes(e))
  end)
end

local function cancelled(skip)
  local built, why = h.build_target("net10.0")
  if not built then skip(why) end
  local target <close> = h.target("net10.0", "throw", N)
  local server <close> = h.server()
  local before = h.usage(server.pid)
  local call = h.loop.spawn(function()
    return server:call("collect_events", { kind = "exceptions", processId = target.pid, durationSeconds = 30 })
  end)
  h.wait_for("the session", h.START_MS, function() return during.sessions(target) == 1 end)
  call:cancel("half-way")
  h.no_session(target)
  h.settled(server, before)
end

return {
  { "known throws, and the runtime's own count", known_throws },
  { "the same from the recording of the session", same_from_the_recording },
  { "a storm past the cap, two collections at once", storm },
  { "nothing happens", nothing_happens },
  { "the target exits in the window", target_exits },
  { "cancelled half-way", cancelled },
}
