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

--- Linux from 6.15 on keeps the exit status of a process for those who watched it; before, its parent may have been faster than we.
local function kernel_tells()
  local major, minor = require("lunette.proc").host().release:match("^(%d+)%.(%d+)")
  return tonumber(major) > 6 or (tonumber(major) == 6 and tonumber(minor) >= 15)
end

--- The process ended with this code, and whether that was an unhandled exception: without the code the exception in flight decides.
local function ended_with(c, code, unhandled, what)
  h.eq(true, c.processExited, what .. ": " .. during.notes(c))
  if c.exitCode == nil and not kernel_tells() then return note(c, "ExitUnknown") end
  h.eq({ code, unhandled }, { c.exitCode, c.unhandledExceptionObserved }, what .. ": " .. during.notes(c))
end

--- The position of a frame in a stack.
local function frame_at(stack, name)
  for i, frame in ipairs(stack or {}) do
    if frame:find(name, 1, true) then return i end
  end
  return nil
end

local function final_is_right(c, runtime)
  if runtime == "aot" and c.exitCode == nil then return end -- SIGABRT alone tells it there
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
    ended_with(c, 134, true, runtime)
    h.ok(seconds(c.duration) < LONG_S / 2, runtime .. ": ended with the process, after " .. c.duration)
    final_is_right(c, runtime)
    h.eq({ HANDLED + 1, { { exceptionType = "System.InvalidOperationException", count = HANDLED + 1 } } }, { c.totalExceptions, c.byType },
      runtime .. ": counts")
    h.eq({ "invalid 1", "invalid 2", "invalid 3", "the last straw" }, messages(c.exceptions), runtime .. ": rows")
    local o = c.observation
    h.eq({ false, true, true, runtime == "net10.0", "the last straw" }, { o.streamCompleted, o.drainCompleted, o.exitObservedInWindow,
      o.crashMarkerObserved, o.lastObservedException.exceptionMessage }, runtime .. ": observation")
    h.eq(nil, o.transportLoss, "what a broken stream lost is not known")
    h.ok(c.unhandledExceptionObserved or runtime == "aot", runtime .. ": unhandled, with or without an exit code")
    local hint = h.find(envelope.hints, { nextTool = "collect_process_dump" })
    h.eq(c.unhandledExceptionObserved and "Mini" or nil, hint and hint.suggestedArguments.dumpType, "a hint at a dump")

    -- the process is gone, the handle is not
    local function view(name) return h.ok(server:call("query_snapshot", { handle = envelope.handle, view = name })).data.payload end
    local summary = view("summary")
    for _, name in ipairs { "processExited", "exitCode", "unhandledExceptionObserved", "finalException", "byType", "notes" } do
      h.eq(c[name], summary[name], "view summary: " .. name)
    end
    h.eq({ HANDLED + 1, c.exceptions }, { view("exceptions").returned, view("exceptions").exceptions }, "view exceptions")
    local stack = view("stack")
    h.eq(c.finalException, stack.finalException, "view stack: finalException")
    h.eq(c.finalException and c.finalException.stack, stack.stack, "view stack: stack")
  end)
end

local function same_from_the_recording(skip)
  during.each_runtime({ "net10.0", "net9.0", "net8.0" }, skip, function(runtime)
    local target <close> = h.target(runtime, "crash", HANDLED, { go = false })
    local live, recorded = during.live_and_recorded("crash_guard", target, LONG_S)
    ended_with(live, 134, true, runtime)
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
      h.loop.sleep_ms(500 * h.slowness()) -- the runtime sends what it has every 100 ms
      t:kill()
      return true
    end))
    ended_with(c, 137, false, runtime)
    if c.totalExceptions == 0 then h.too_slow() end
    h.ok(c.totalExceptions > 100, runtime .. ": exceptions before the end: " .. c.totalExceptions)
    h.ok(c.observation.lastObservedException, "the last one is told apart")
    if c.exitCode then
      h.eq(nil, c.finalException, "no final exception")
      note(c, "Killed")
    end
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
  ended_with(c, 134, true, "SIGABRT")
  h.eq({ nil, false }, { c.finalException, c.observation.crashMarkerObserved }, "nothing is made up")
  h.ok(not c.exitCode or during.notes(c):find("FailFast", 1, true), "what else it may be: " .. during.notes(c))
end

local function ends_in_good_order(skip)
  during.each_runtime(RUNTIMES, skip, function(runtime)
    local target <close> = h.target(runtime, "throw", 10, { go = false })
    local c = guard_of(during.collect(target, arguments(), function(t)
      during.go(t)
      return t:command("quit", "^BYE")
    end))
    ended_with(c, 0, false, runtime)
    h.eq(60, c.totalExceptions, runtime .. ": counted to the end")
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
    ended_with(c, 134, true, runtime)
    h.eq(2, c.totalExceptions, runtime .. ": counted to the end")
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
      during.stay_open(target, 2, 1500) -- each of the guards has a second session for a moment
      target:command("go", "^GOING")
      h.loop.sleep_ms(500 * h.slowness()) -- the runtime sends what it has every 100 ms
      return target:kill() or true
    end }
    for i = 1, 2 do
      local c = guard_of(results[i])
      ended_with(c, 137, false, runtime)
      if c.totalExceptions < 60 then h.too_slow() end -- not all were sent; every time that would be a fault
      h.eq(60, c.totalExceptions, runtime .. ": thrown before the end")
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
  h.no_session(target)
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
