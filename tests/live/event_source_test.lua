-- SPDX-License-Identifier: MIT
-- collect_events kind=event_source over a target that writes known events: 4 kinds, two of them by lists of objects, one of them a flood.
local during = require("during")
local h = require("harness")
local scopes = require("lunette.scopes")

local RUNTIMES <const> = { "net10.0", "net9.0", "net8.0", "aot" }
local N <const> = 50 -- 175 events: all of them inline
local SECONDS <const> = 3
local DEMO <const> = "Lunette-Demo"
local ALLOWED <const> = { Diagnostics__EventSourceAllowlist__0 = DEMO, Diagnostics__EventSourceAllowlist__1 = "Lunette-Flood" }

local function arguments(target, more)
  local given = { kind = "event_source", providerName = DEMO, processId = target.pid, durationSeconds = SECONDS, maxEvents = 1000,
    depth = "Detail" }
  for name, value in pairs(more or {}) do given[name] = value end
  return given
end

local function collect(server, target, more, work)
  local envelope, did = during.both(target, function()
    return h.ok(server:call("collect_events", arguments(target, more)))
  end, work or during.go)
  h.ok(not envelope.error, "no error: " .. h.json.encode(envelope.error or {}))
  return envelope.data.eventSource, did, envelope.handle
end

local function totals(data)
  local by_name = {}
  for _, g in ipairs(data.byEventName) do by_name[g.eventName] = g.total end
  return by_name
end

local function known_events(skip)
  local server <close> = h.server { environment = ALLOWED }
  during.each_runtime(RUNTIMES, skip, function(runtime)
    local target <close> = h.target(runtime, "source", N, { go = false })
    local data, did, handle = collect(server, target)
    h.eq({ did.events, did.events, false }, { data.totalEvents, data.capturedCount, data.truncated }, runtime .. ": events")
    h.eq({ Ping = did.ping, ["Order/Start"] = did.order_start, ["Order/Stop"] = did.order_stop, Bad = did.bad }, totals(data),
      runtime .. ": by name")
    h.eq({ "Ping", "Informational", { number = "1", text = "ping 1" } },
      { data.events[1].eventName, data.events[1].level, data.events[1].payload }, "the first event")
    local last = data.events[#data.events]
    h.eq({ "Bad", "Warning", { value = tostring(did.bad + 0.25) } }, { last.eventName, last.level, last.payload }, "the last event")
    h.eq("", during.notes(data), "notes")
    h.eq({ 0, target.pid }, { data.cost.eventsLost, data.processId }, "nothing lost")
    local view = h.ok(server:call("query_snapshot", { handle = handle, view = "byEventName" })).data.payload
    h.eq({ did.events, 4 }, { view.totalEvents, #view.byEventName }, "byEventName")
    h.no_session(target)
  end)
end

--- The unsafe path by command line: refused without the scope, narrowed with it, and no event without a keyword is lost by that.
local function unsafe_path(skip)
  during.each_runtime({ "net10.0", "net9.0", "net8.0" }, skip, function(runtime)
    local target <close> = h.target(runtime, "source", N, { go = false })
    local refused = h.call("collect_events", arguments(target, { unsafeProvider = true }))
    h.eq({ "EventSourceProviderNotAllowed", DEMO }, { refused.error.kind, refused.error.detail }, "root alone")
    local words = {
      h.lunette, "call", "collect_events", "--json", "--approve", "--scopes", "eventpipe,eventsource-any", "unsafeProvider=true",
    }
    local given = arguments(target, { durationSeconds = SECONDS * h.slowness() })
    for name, value in pairs(given) do words[#words + 1] = name .. "=" .. tostring(value) end
    local data, did = during.both(target, function()
      local window = h.window_begins(target.pid, given.durationSeconds)
      local done = h.ok(h.loop.exec { argv = words, timeout_ms = 180000, max_output = 1 << 20 })
      h.window_ends(window, true)
      return h.ok(h.json.decode(done.stdout), done.stderr).data.eventSource
    end, during.go)
    h.eq({ "0x0", 4 }, { data.keywords, data.eventLevel }, "narrowed")
    h.eq(did.events, data.totalEvents, runtime .. ": all events without keywords")
    h.ok(during.notes(data):find("KeywordsNarrowed", 1, true) and during.notes(data):find("LevelNarrowed", 1, true), "both notes")
  end)
end

local function counts_past_the_cap(skip)
  local built, why = h.build_target("net10.0")
  if not built then skip(why) end
  local server <close> = h.server { environment = ALLOWED }
  local target <close> = h.target("net10.0", "flood", 50, { go = false })
  local data, did = collect(server, target, { providerName = "Lunette-Flood", maxEvents = 100 }, function()
    target:command("go", "^GOING")
    h.loop.sleep_ms(1200)
    target:command("stop")
    return require("known_values").did(target)
  end)
  h.ok(did.events > 20000, "a flood of " .. did.events)
  h.eq(0, data.cost.eventsLost, "nothing lost")
  h.eq({ did.events, 100, true }, { data.totalEvents, data.capturedCount, data.truncated }, "counted past the cap")
  h.eq({ ["Work/Start"] = did.starts, ["Work/Stop"] = did.stops }, totals(data), "by name, of the whole window")
  h.eq("kind00", data.events[1].payload.kind:gsub("%d%d", "00"), "payload of what was stored")
  h.ok(data.cost.lunetteCpuMs < 400, ("%.0f ms of CPU for what is only counted"):format(data.cost.lunetteCpuMs))
end

-- A caller inside this process, for what the command line cannot ask.
local function caller()
  local principal = scopes.principal("live", { "eventpipe", "eventsource-any" })
  local ctx = { transport = "cli", era = "modern", in_task = false, principal = principal }
  function ctx.can() return false end
  function ctx.progress() end
  return ctx
end

local function same_from_the_recording(skip)
  local branch = require("collectors.event_source")
  during.each_runtime({ "net10.0", "net8.0" }, skip, function(runtime)
    local target <close> = h.target(runtime, "source", N, { go = false })
    local path = h.scratch() .. "/session.nettrace"
    local function run(more)
      local given = { providerName = DEMO, unsafeProvider = true, keywords = -1, eventLevel = 5, maxEvents = 100, durationSeconds = SECONDS,
        depth = "Detail" }
      for name, value in pairs(more) do given[name] = value end
      local payload, extras = branch.run(caller(), given)
      return h.ok(payload, tostring(extras and extras.message)), extras
    end
    local live, did = during.both(target, function()
      local window = h.window_begins(target.pid, SECONDS * h.slowness())
      local payload = run { processId = target.pid, save_to = path, durationSeconds = SECONDS * h.slowness() }
      h.window_ends(window, true)
      return payload
    end, during.go)
    local recorded = run { traceFilePath = path }
    h.eq(did.events, recorded.totalEvents, runtime .. ": events of the recording")
    for _, name in ipairs { "processId", "provider", "totalEvents", "capturedCount", "truncated", "byEventName", "events" } do
      h.eq(live[name], recorded[name], runtime .. ": " .. name)
    end
  end)
end

local function two_at_once(skip)
  local built, why = h.build_target("net10.0")
  if not built then skip(why) end
  local server <close> = h.server { environment = ALLOWED }
  local target <close> = h.target("net10.0", "source", N, { go = false })
  local both, did = during.both(target, function()
    return h.together {
      function() return server:call("collect_events", arguments(target)) end,
      function() return server:call("collect_events", arguments(target)) end,
    }
  end, function()
    during.stay_open(target, 2, 300)
    return during.go(target)
  end)
  for _, envelope in ipairs(both) do h.eq(did.events, envelope.data.eventSource.totalEvents, "each sees all") end
end

local function nothing_happens(skip)
  local built, why = h.build_target("net10.0")
  if not built then skip(why) end
  local server <close> = h.server { environment = ALLOWED }
  local target <close> = h.target("net10.0", "idle")
  local data = collect(server, target, { durationSeconds = 2 }, function() return true end)
  h.eq({ 0, 0, false }, { data.totalEvents, data.capturedCount, data.truncated }, "nothing")
  h.ok(during.notes(data):find("ProviderSilent: no event came from " .. DEMO, 1, true), "the note: " .. during.notes(data))
end

local function target_exits(skip)
  local built, why = h.build_target("net10.0")
  if not built then skip(why) end
  local server <close> = h.server { environment = ALLOWED }
  local target <close> = h.target("net10.0", "source", N, { go = false })
  local started = h.loop.now_ms()
  local data, did = collect(server, target, { durationSeconds = 20 }, function()
    local done = during.go(target)
    target:command("quit", "^BYE")
    return done
  end)
  h.ok(h.loop.now_ms() - started < 10000, "ends with the target")
  h.eq(did.events, data.totalEvents, "what came before is kept")
  h.ok(during.notes(data):find("ProcessEnded", 1, true), "the note: " .. during.notes(data))
end

--- A client that goes away ends the session on the target, before and after the store is full.
local function cancelled(skip)
  local built, why = h.build_target("net10.0")
  if not built then skip(why) end
  local server <close> = h.server { environment = ALLOWED }
  local before = h.usage(server.pid)
  local function one(max)
    local target <close> = h.target("net10.0", "source", N, { go = false })
    local answer, err = during.both(target, function()
      return server:call("collect_events", arguments(target, { durationSeconds = 60, maxEvents = max }),
        { timeout_ms = 3000 * h.slowness() })
    end, during.go)
    h.eq(nil, answer, "no answer")
    h.ok(err, "the client gave up")
    h.no_session(target)
    return true
  end
  h.together { function() return one(1000) end, function() return one(5) end }
  h.settled(server, before)
end

return {
  { "known events, their payload and their counts, on all runtimes", known_events },
  { "the unsafe path: refused, narrowed, complete", unsafe_path },
  { "the recording of a session tells the same", same_from_the_recording },
  { "a flood is counted past maxEvents, at little cost", counts_past_the_cap, alone = true },
  { "two collectors at once", two_at_once },
  { "nothing happens", nothing_happens },
  { "the target exits in the window", target_exits },
  { "a client goes away", cancelled },
}
