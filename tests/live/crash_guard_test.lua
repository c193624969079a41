-- SPDX-License-Identifier: MIT
-- collect_events kind=crash-guard over targets that die in each way, and over some that do not, on every runtime.
local during = require("during")
local h = require("harness")
local known = require("known_values")

local RUNTIMES <const> = { "net10.0", "net9.0", "net8.0", "aot" }
local HANDLED <const> = 3
local LONG_S <const> = 30 -- never waited for: the end of the process ends the window

local function guard_of(envelope)
  h.ok(not envelope.error, "no error: " .. h.json.encode(envelope.error or {}))
  return envelope.data.crashGuard
end

local function arguments(more)
  local given = { kind = "crash-guard", durationSeconds = LONG_S, depth = "Detail" }
  for name, value in pairs(more or {}) do given[name] = value end
  return given
end

local function seconds(timespan)
  local hours, minutes, rest = timespan:match("^(%d+):(%d+):([%d.]+)$")
  return hours * 3600 + minutes * 60 + rest
end

local function note(c, id) return h.ok(during.notes(c):find(id .. ":", 1, true), id .. " in the notes: " .. during.notes(c)) end

--- The position of a frame in a stack.
local function frame_at(stack, name)
  for i, frame in ipairs(stack or {}) do
    if frame:find(name, 1, true) then return i end
  end
  return nil
end

local function final_is_right(c, runtime)
  local f = h.ok(c.finalException, runtime .. ": a final exception: " .. during.notes(c))
  h.eq({ "System.InvalidOperationException", "the last straw", "0x80131509" },
    { f.exceptionType, f.exceptionMessage, f.exceptionHResult }, runtime .. ": final exception")
  if runtime == "aot" then -- it tells neither flags nor the methods' names
    h.eq(nil, f.stack, "no stack")
    return note(c, "NoStack")
  end
  h.eq({ "hasInner" }, f.flags, runtime .. ": flags")
  local inner, outer = frame_at(f.stack, "Lunette.Target.Crashing.CrashInner()"), frame_at(f.stack, "Lunette.Target.Crashing.CrashNow()")
  h.ok(inner and outer == inner + 1, runtime .. ": the stack " .. h.json.encode(f.stack))
end

local function messages(rows)
  local list = {}
  for i, row in ipairs(rows) do list[i] = row.exceptionMessage end
  return list
end

local function crash(skip)
  during.each_runtime(RUNTIMES, skip, function(runtime)
    local target <close> = h.target(runtime, "crash", HANDLED, { go = false })
    local server <close> = h.server()
    local envelope, did = during.both(target, function()
      return h.ok(server:call("collect_events", arguments { processId = target.pid }))
    end, during.go)
    local c = guard_of(envelope)
    h.eq({ HANDLED, 1 }, { did.handled, did.unhandled }, "done")
    h.eq({ true, 134, true }, { c.processExited, c.exitCode, c.unhandledExceptionObserved }, runtime .. ": " .. during.notes(c))
    h.ok(seconds(c.duration) < LONG_S / 2, runtime .. ": ended with the process, after " .. c.duration)
    final_is_right(c, runtime)
    h.eq({ HANDLED + 1, { { exceptionType = "System.InvalidOperationException", count = HANDLED + 1 } } }, { c.totalExceptions, c.byType },
      runtime .. ": counts")
    h.eq({ "invalid 1", "invalid 2", "invalid 3", "the last straw" }, messages(c.exceptions), runtime .. ": rows")
    local o = c.observation
    h.eq({ false, true, true, runtime == "net10.0", "the last straw" }, { o.streamCompleted, o.drainCompleted, o.exitObservedInWindow,
      o.crashMarkerObserved, o.lastObservedException.exceptionMessage }, runtime .. ": observation")
    h.eq(nil, o.transportLoss, "what a broken stream lost is not known")
    local hint = h.ok(h.find(envelope.hints, { nextTool = "collect_process_dump" }), "a hint at a dump")
    h.eq("Mini", hint.suggestedArguments.dumpType, "its kind")

    -- the process is gone, the handle is not
    local function view(name) return h.ok(server:call("query_snapshot", { handle = envelope.handle, view = name })).data.payload end
    local summary = view("summary")
    h.eq({ true, 134, true, c.finalException, c.byType, c.notes }, { summary.processExited, summary.exitCode,
      summary.unhandledExceptionObserved, summary.finalException, summary.byType, summary.notes }, "view summary")
    h.eq({ HANDLED + 1, c.exceptions }, { view("exceptions").returned, view("exceptions").exceptions }, "view exceptions")
    h.eq({ c.finalException, c.finalException.stack }, { view("stack").finalException, view("stack").stack }, "view stack")
  end)
end

local function same_from_the_recording(skip)
  during.each_runtime({ "net10.0", "net9.0", "net8.0" }, skip, function(runtime)
    local target <close> = h.target(runtime, "crash", HANDLED, { go = false })
    local live, recorded = during.live_and_recorded("crash_guard", target, LONG_S)
    h.eq({ true, 134 }, { live.processExited, live.exitCode }, "the process died")
    h.eq({ true, false }, { recorded.unhandledExceptionObserved, recorded.processExited }, runtime .. ": of the recording")
    h.eq(nil, recorded.exitCode, "a recording has no exit code")
    for _, name in ipairs { "processId", "unhandledExceptionObserved", "totalExceptions", "byType" } do
      h.eq(live[name], recorded[name], runtime .. ": " .. name)
    end
    h.eq(messages(live.exceptions), messages(recorded.exceptions), runtime .. ": exceptions")
    final_is_right(recorded, runtime)
    note(recorded, "Recording")
  end)
end

--- The process lives when the window ends, whatever it threw and caught.
local function does_not_crash(skip)
  during.each_runtime(RUNTIMES, skip, function(runtime)
    local target <close> = h.target(runtime, "throw", 10, { go = false })
    local c = guard_of(during.collect(target, arguments { durationSeconds = 3, maxRecent = 2 }))
    h.eq({ false, false, 60, 2 }, { c.processExited, c.unhandledExceptionObserved, c.totalExceptions, c.recentCap },
      runtime .. ": " .. during.notes(c))
    h.eq({ nil, nil }, { c.exitCode, c.finalException }, "nothing is made up")
    h.eq({ "order 29", "order 30" }, messages(c.exceptions), runtime .. ": the last ones")
    h.eq({ true, 0, true, false }, { c.observation.streamCompleted, c.observation.transportLoss, c.observation.drainCompleted,
      c.observation.exitObservedInWindow }, runtime .. ": observation")
    h.no_session(target)
  end)
end

local function nothing_happens(skip)
  during.each_runtime(RUNTIMES, skip, function(runtime)
    local target <close> = h.target(runtime, "idle")
    local envelope = h.call("collect_events", { kind = "crash-guard", processId = target.pid, durationSeconds = 2 })
    local c = guard_of(envelope)
    h.eq({ 0, 0, 0, false, false, "" }, { c.totalExceptions, #c.byType, #c.exceptions, c.processExited, c.unhandledExceptionObserved,
      during.notes(c) }, runtime .. ": nothing")
    h.eq(nil, envelope.signals, "no signal")
    h.ok(not h.find(envelope.hints, { nextTool = "collect_process_dump" }), "no dump without a crash")
    h.no_session(target)
  end)
end

--- SIGKILL in the middle of a storm of handled exceptions: an end from outside, and no managed crash.
local function killed(skip)
  during.each_runtime(RUNTIMES, skip, function(runtime)
    local target <close> = h.target(runtime, "throw", 10000000, { go = false })
    local c = guard_of(during.collect(target, arguments(), function(t)
      t:command("go", "^GOING")
      h.loop.sleep_ms(500) -- the runtime sends what it has every 100 ms
      t:kill()
      return true
    end))
    h.eq({ true, 137, false }, { c.processExited, c.exitCode, c.unhandledExceptionObserved }, runtime .. ": " .. during.notes(c))
    h.eq(nil, c.finalException, "no final exception")
    h.ok(c.totalExceptions > 100, runtime .. ": exceptions before the end: " .. c.totalExceptions)
    h.ok(c.observation.lastObservedException, "the last one is told apart")
    note(c, "Killed")
  end)
end

--- SIGABRT without an exception, as after FailFast: said to look like a crash, and to be a guess.
local function aborted(skip)
  local built, why = h.build_target("net10.0")
  if not built then skip(why) end
  local target <close> = h.target("net10.0", "idle")
  local c = guard_of(during.collect(target, arguments(), function(t)
    h.wait_for("its end", h.START_MS, function() -- the runtime takes the first one from outside, and lives on
      t:signal("ABRT")
      return t.child.exit
    end)
    return true
  end))
  h.eq({ true, 134, true }, { c.processExited, c.exitCode, c.unhandledExceptionObserved }, during.notes(c))
  h.eq({ nil, false }, { c.finalException, c.observation.crashMarkerObserved }, "nothing is made up")
  h.ok(during.notes(c):find("FailFast", 1, true), "what else it may be: " .. during.notes(c))
end

local function ends_in_good_order(skip)
  during.each_runtime(RUNTIMES, skip, function(runtime)
    local target <close> = h.target(runtime, "throw", 10, { go = false })
    local c = guard_of(during.collect(target, arguments(), function(t)
      during.go(t)
      return t:command("quit", "^BYE")
    end))
    h.eq({ true, 0, false, 60 }, { c.processExited, c.exitCode, c.unhandledExceptionObserved, c.totalExceptions },
      runtime .. ": " .. during.notes(c))
    h.eq({ nil, true }, { c.finalException, c.observation.streamCompleted }, runtime .. ": a stream in good order")
    h.ok(seconds(c.duration) < LONG_S / 2, runtime .. ": ended with the process, after " .. c.duration)
  end)
end

--- It dies before it is a second old, in the first moments of the window.
local function crashes_at_once(skip)
  during.each_runtime(RUNTIMES, skip, function(runtime)
    local target <close> = h.target(runtime, "crash", 1, { go = false })
    local envelope = during.collect(target, arguments(), function(t)
      t:command("go", "^GOING")
      return known.did(t)
    end)
    local c = guard_of(envelope)
    h.eq({ true, 134, true, 2 }, { c.processExited, c.exitCode, c.unhandledExceptionObserved, c.totalExceptions },
      runtime .. ": " .. during.notes(c))
    final_is_right(c, runtime)
  end)
end

--- An end after the window changes nothing: not the answer, nor what the handle gives.
local function ends_later(skip)
  local built, why = h.build_target("net10.0")
  if not built then skip(why) end
  local target <close> = h.target("net10.0", "idle")
  local server <close> = h.server()
  local envelope = h.ok(server:call("collect_events", arguments { processId = target.pid, durationSeconds = 1 }))
  h.eq({ false, false }, { guard_of(envelope).processExited, guard_of(envelope).unhandledExceptionObserved }, "it lives")
  target:kill()
  local summary = h.ok(server:call("query_snapshot", { handle = envelope.handle, view = "summary" })).data.payload
  h.eq({ false, false }, { summary.processExited, summary.unhandledExceptionObserved }, "as it was known when the window ended")
  h.eq(nil, summary.exitCode, "no exit code")
  h.eq(nil, h.ok(server:call("query_snapshot", { handle = envelope.handle, view = "stack" })).data.payload.stack, "no stack")
end

--- What was called before the window began has its name, though no rundown can come after a crash. Two guards at once.
local function names_come_early(skip)
  during.each_runtime({ "net10.0", "net9.0", "net8.0" }, skip, function(runtime)
    local target <close> = h.target(runtime, "throw", 10)
    known.did(target)
    local server <close> = h.server()
    local function guard() return h.ok(server:call("collect_events", arguments { processId = target.pid })) end
    local results = h.together { guard, guard, function()
      -- two guards, each with a second session for a moment
      h.wait_for("both sessions", h.START_MS, function() return during.sessions(target) >= 2 end)
      h.loop.sleep_ms(1500)
      target:command("go", "^GOING")
      h.loop.sleep_ms(500) -- the runtime sends what it has every 100 ms
      return target:kill() or true
    end }
    for i = 1, 2 do
      local c = guard_of(results[i])
      h.eq({ 60, 137 }, { c.totalExceptions, c.exitCode }, runtime .. ": thrown before the end")
      local stack = c.exceptions[#c.exceptions].stack
      h.eq({ "Lunette.Target.Throwing.ThrowOrder(int32)", "Lunette.Target.Throwing.Do()", "Lunette.Target.Work.Body()" },
        { stack[1], stack[3], stack[4] }, runtime .. ": stack of a method that was compiled before")
      local site = h.ok(h.find(results[i].signals, { signal = "exceptions.by-throw-site" }), "the signal")
      h.eq({ "Lunette.Target.OrderException @ Lunette.Target.Throwing.ThrowOrder(int32)", 30 },
        { site.buckets[1].key, site.buckets[1].magnitude }, runtime .. ": its bucket")
    end
  end)
end

local function cancelled(skip)
  local built, why = h.build_target("net10.0")
  if not built then skip(why) end
  local target <close> = h.target("net10.0", "throw", 10)
  local server <close> = h.server()
  local before = h.usage(server.pid)
  local call = h.loop.spawn(function() return server:call("collect_events", arguments { processId = target.pid }) end)
  h.wait_for("the session", h.START_MS, function() return during.sessions(target) >= 1 end)
  call:cancel("half-way")
  h.no_session(target, 3000)
  h.settled(server, before)
end

return {
  { "a crash: exit, final exception, stack, views after the end", crash },
  { "the same from the recording of the session", same_from_the_recording },
  { "a target that does not crash", does_not_crash },
  { "nothing happens", nothing_happens },
  { "SIGKILL is no managed crash", killed },
  { "SIGABRT without an exception", aborted },
  { "an end in good order", ends_in_good_order },
  { "a crash in the first second", crashes_at_once },
  { "an end after the window changes nothing", ends_later },
  { "methods of before the window have names, two guards at once", names_come_early },
  { "cancelled half-way", cancelled },
}
