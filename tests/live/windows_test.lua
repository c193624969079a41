-- SPDX-License-Identifier: MIT
-- What holds for the window of every kind of collect_events, all of them at once on one target: they do not disturb each other, a client
-- that goes away ends its session, and a target that dies in the window is told as such.
local during = require("during")
local h = require("harness")

local RUNTIME <const> = "net10.0"
local LONG_S <const> = 60
local CALL_MS <const> = 180000
local KINDS <const> = {
  "counters", "exceptions", "crash-guard", "gc", "datas", "catalog", "jit", "threadpool", "contention", "startup", "wait-handles",
  "runtime-metrics", "allocations-sampled", "event_source",
  "networking", "http-phases",
}
local MORE <const> = { event_source = { providerName = "Microsoft-Windows-DotNETRuntime" } }

local function arguments(kind, target, seconds)
  local given = { kind = kind, processId = target.pid, durationSeconds = seconds }
  for name, value in pairs(MORE[kind] or {}) do given[name] = value end
  return given
end

local function start(mode)
  local target = h.target(RUNTIME, mode, nil, { go = false })
  h.loop.sleep_ms(2000) -- old enough to be asked for counters
  return target
end

local function need(skip)
  local built, why = h.build_target(RUNTIME)
  if not built then skip(why) end
end

--- Starts a window of every kind over HTTP; gives the tasks by kind. The callers wait for at most timeout_ms.
local function all_kinds(server, target, seconds, timeout_ms)
  local calls = {}
  for _, kind in ipairs(KINDS) do
    calls[kind] = h.loop.spawn(function()
      local envelope, err = server:call("collect_events", arguments(kind, target, seconds), { timeout_ms = timeout_ms })
      return { envelope = envelope, err = err }
    end)
  end
  return calls
end

--- All kinds have a session on the target, but for those that open one after another.
local function all_open(target)
  h.wait_for("the sessions of all kinds", h.START_MS, function() return during.sessions(target) >= #KINDS end)
end

local function side_by_side(skip)
  need(skip)
  local server <close> = h.server()
  local target <close> = start("idle")
  for kind, call in pairs(all_kinds(server, target, 3, CALL_MS)) do
    local done = assert(call:await(CALL_MS))
    h.ok(done.envelope, kind .. " has an answer: " .. tostring(done.err and done.err.message))
    h.ok(not done.envelope.error, kind .. " succeeds: " .. h.json.encode(done.envelope.error or {}))
    h.ok(done.envelope.handle, kind .. " has a handle")
    h.ok(#h.json.encode(done.envelope) < 16384, kind .. " answers within 16 KB")
  end
  h.no_session(target)
end

local function clients_go_away(skip)
  need(skip)
  local server <close> = h.server()
  local target <close> = start("idle")
  local calls = all_kinds(server, target, LONG_S, CALL_MS)
  all_open(target)
  for _, call in pairs(calls) do call:cancel("the client goes away") end
  h.no_session(target)
  h.wait_for("the end of the streaming threads", h.START_MS, function() return during.sessions(target) == 0 end)
  h.eq("PONG", (target:command("ping", "^PONG"):match("^%u+")), "the target lives on")
end

local function target_dies(skip)
  need(skip)
  local server <close> = h.server()
  local target <close> = start("idle")
  local since = h.loop.now_ms()
  local calls = all_kinds(server, target, LONG_S, CALL_MS)
  all_open(target)
  target:kill()
  for kind, call in pairs(calls) do
    local done = assert(call:await(CALL_MS))
    local envelope = h.ok(done.envelope, kind .. " has an answer: " .. tostring(done.err and done.err.message))
    local text = h.json.encode(envelope)
    if envelope.error then
      h.eq("ProcessExited", envelope.error.kind, kind)
    else
      h.ok(text:find("ProcessEnded", 1, true) or text:find("[Ee]xited"), kind .. " says that the process ended: " .. text:sub(1, 600))
    end
  end
  h.ok(h.loop.now_ms() - since < LONG_S * 1000 - 5000, "no window waits for its end when the target is gone")
end

return {
  { "every kind side by side on one target", side_by_side },
  { "clients go away half-way, every kind", clients_go_away },
  { "the target dies in the window, every kind", target_dies },
}
