-- SPDX-License-Identifier: MIT
-- What holds for the window of every kind of collect_events and collect_sample, all of them at once on one target of each runtime: they do
-- not disturb each other, a client that goes away ends its session, and a target that dies in the window is told as such.
local during = require("during")
local h = require("harness")

local RUNTIMES <const> = { "net10.0", "net9.0", "net8.0" }
local SHORT_S <const>, LONG_S <const> = 6, 60
local AT_ONCE <const> = 4
local CALL_MS <const> = 180000
local KINDS <const> = {
  "counters", "exceptions", "crash-guard", "gc", "datas", "catalog", "jit", "threadpool", "contention", "startup", "wait-handles",
  "runtime-metrics", "allocations-sampled", "event_source", "activities", "logs",
  "networking", "http-phases", "requests", "kestrel", "db", "cpu", "allocation",
}
local SAMPLERS <const> = { cpu = true, allocation = true }
-- What a runtime cannot tell is refused at once.
local REFUSED <const> = {
  ["net10.0"] = {}, ["net9.0"] = { ["allocations-sampled"] = true },
  ["net8.0"] = { ["allocations-sampled"] = true, ["wait-handles"] = true },
}
local MORE <const> = { event_source = { providerName = "Microsoft-Windows-DotNETRuntime" } }

local function arguments(kind, target, seconds)
  local given = { kind = kind, processId = target.pid, durationSeconds = seconds }
  for name, value in pairs(MORE[kind] or {}) do given[name] = value end
  return given
end

local function start(runtime, skip)
  local built, why = h.build_target(runtime)
  if not built then skip(why) end
  local target = h.target(runtime, "idle", nil, { go = false })
  h.loop.sleep_ms(2000) -- old enough to be asked for counters
  return target
end

--- A call that has ended before all windows were open: this machine is too slow for that, or something is wrong.
local function ended_early(kind, done)
  local envelope = h.ok(done.envelope, kind .. " has an answer: " .. tostring(done.err and done.err.message))
  local timeout = envelope.error and envelope.error.detail == "Timeout"
  h.ok(timeout or not envelope.error, kind .. " succeeds: " .. h.json.encode(envelope.error or {}))
  h.too_slow()
end

--- Starts a window of every kind over HTTP, some at a time: a runtime answers one after another, and each waits for its answer for some
--- seconds only. Gives the tasks by kind, once all have their sessions. On a machine where an answer came too late the case begins again.
local function all_kinds(server, target, seconds)
  local calls, results, expected = {}, {}, 0
  for i, kind in ipairs(KINDS) do
    calls[kind] = h.loop.spawn(function()
      local envelope, err = server:call(SAMPLERS[kind] and "collect_sample" or "collect_events", arguments(kind, target, seconds),
        { timeout_ms = CALL_MS })
      results[kind] = { envelope = envelope, err = err }
      return results[kind]
    end)
    if not REFUSED[target.runtime][kind] then expected = expected + 1 end
    if i % AT_ONCE == 0 or i == #KINDS then
      h.wait_for("the sessions of the kinds up to " .. kind, h.START_MS, function()
        for _, name in ipairs(KINDS) do
          if results[name] and not REFUSED[target.runtime][name] then ended_early(name, results[name]) end
        end
        return during.sessions(target) >= expected
      end)
    end
  end
  return calls
end

--- Whether the answer is the refusal of a kind that this runtime cannot tell of; it must be one then.
local function refused(target, kind, envelope)
  if not REFUSED[target.runtime][kind] then return false end
  h.eq("UnsupportedRuntime", envelope.error and envelope.error.kind, kind .. " on " .. target.runtime .. ": " .. envelope.summary)
  return true
end

--- A capture of a process ends with it, but for that of its end.
local function after_its_end(server, target, handles)
  for kind, handle in pairs(handles) do
    h.eq(nil, h.ok(server:call("query_snapshot", { handle = handle })).error, kind .. " answers while the process lives")
  end
  target:kill()
  for kind, handle in pairs(handles) do
    local err = h.ok(server:call("query_snapshot", { handle = handle })).error
    h.eq(kind ~= "crash-guard" and "HandleNotFound" or nil, err and err.kind, kind .. " after the end of the process")
  end
end

local function side_by_side(runtime, skip)
  local target <close> = start(runtime, skip)
  local server <close> = h.server()
  local handles = {}
  for kind, call in pairs(all_kinds(server, target, SHORT_S)) do
    local done = assert(call:await(CALL_MS))
    h.ok(done.envelope, kind .. " has an answer: " .. tostring(done.err and done.err.message))
    if not refused(target, kind, done.envelope) then
      h.ok(not done.envelope.error, kind .. " succeeds: " .. h.json.encode(done.envelope.error or {}))
      handles[kind] = h.ok(done.envelope.handle, kind .. " has a handle")
      h.eq({ target.pid, false }, { done.envelope.resolvedProcess.processId, done.envelope.resolvedProcess.autoResolved }, kind)
    end
    h.ok(#h.json.encode(done.envelope) < 16384, kind .. " answers within 16 KB")
  end
  h.no_session(target)
  after_its_end(server, target, handles)
end

local function clients_go_away(runtime, skip)
  local target <close> = start(runtime, skip)
  local server <close> = h.server()
  local calls = all_kinds(server, target, LONG_S)
  for _, call in pairs(calls) do call:cancel("the client goes away") end
  h.no_session(target)
  h.wait_for("the end of the streaming threads", h.START_MS, function() return during.sessions(target) == 0 end)
  h.eq("PONG", (target:command("ping", "^PONG"):match("^%u+")), "the target lives on")
end

local function target_dies(runtime, skip)
  local target <close> = start(runtime, skip)
  local server <close> = h.server()
  local since = h.loop.now_ms()
  local calls = all_kinds(server, target, LONG_S)
  target:kill()
  for kind, call in pairs(calls) do
    local done = assert(call:await(CALL_MS))
    local envelope = h.ok(done.envelope, kind .. " has an answer: " .. tostring(done.err and done.err.message))
    local text = h.json.encode(envelope)
    if envelope.error then
      local error = envelope.error -- it may have ended before its window began
      local before = error.kind == "ProcessNotFound" or error.kind == "EndpointUnavailable" and error.detail == "ProcessExited"
      local expected = REFUSED[runtime][kind] and "UnsupportedRuntime" or "ProcessExited"
      h.eq(expected, before and "ProcessExited" or error.kind, kind .. ": " .. error.message)
    else
      h.ok(text:find("ProcessEnded", 1, true) or text:find("[Ee]xited"), kind .. " says that the process ended: " .. text:sub(1, 600))
    end
  end
  h.ok(h.loop.now_ms() - since < LONG_S * 1000 - 5000, "no window waits for its end when the target is gone")
end

local cases = {}
for _, runtime in ipairs(RUNTIMES) do
  for _, case in ipairs {
    { "every kind side by side on one target", side_by_side },
    { "clients go away half-way, every kind", clients_go_away },
    { "the target dies in the window, every kind", target_dies },
  } do
    cases[#cases + 1] = { ("%s, %s"):format(case[1], runtime), function(skip) case[2](runtime, skip) end }
  end
end
return cases
