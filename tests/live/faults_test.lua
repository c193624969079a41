-- SPDX-License-Identifier: MIT
-- What goes wrong in a collection ends in a clear answer, and leaves nothing behind: no descriptor, thread, child, nor session in a target.
local h = require("harness")
local sessions = require("during").sessions

local function built(skip)
  local ok, why = h.build_target("net10.0")
  if not ok then skip(why) end
end

local function counters(server, pid, seconds, more)
  local arguments = { kind = "counters", processId = pid, durationSeconds = seconds }
  for name, value in pairs(more or {}) do arguments[name] = value end
  return h.ok(server:call("collect_events", arguments))
end

local function notes_of(envelope) return table.concat(envelope.data.counters.notes, "\n") end

--- Runs fn beside a collection, once the collection's session is open.
local function during(server, target, seconds, fn, more)
  local results = h.together {
    function() return counters(server, target.pid, seconds, more) end,
    function()
      h.wait_for("the session to open", h.START_MS, function() return sessions(target) > 0 end) -- what only asks has no events on
      h.loop.sleep_ms(250)
      return fn() or true
    end,
  }
  return results[1]
end

local function killed_in_the_middle(skip)
  built(skip)
  local server <close> = h.server()
  local target <close> = h.target("net10.0", "counters")
  local before = h.usage(server.pid)
  local envelope = during(server, target, 20, function()
    h.loop.sleep_ms(2500)
    target:kill()
  end)
  h.eq(nil, envelope.error, "no error")
  h.ok(envelope.summary:find("The process ended within the window.", 1, true), "the summary: " .. envelope.summary)
  for _, hint in ipairs(envelope.hints) do
    h.eq(nil, hint.suggestedArguments.processId, "a hint to a process that ended: " .. hint.nextTool)
  end
  h.ok(notes_of(envelope):find("ProcessEnded", 1, true), "a note that the process ended, got: " .. notes_of(envelope))
  h.ok(#envelope.data.counters.counters > 5, "what came before is kept")
  h.settled(server, before)
end

local function killed_before_a_counter(skip)
  built(skip)
  local server <close> = h.server()
  local target <close> = h.target("net10.0", "idle")
  h.loop.sleep_ms(1600) -- past the guard for starting programs
  local before = h.usage(server.pid)
  local envelope = during(server, target, 20, function() target:kill() end)
  h.eq("ProcessExited", envelope.error and envelope.error.kind, "error kind")
  h.ok(envelope.error.message:find(tostring(target.pid), 1, true), "the process is named")
  h.settled(server, before)
end

local function ends_by_itself(skip)
  built(skip)
  local server <close> = h.server()
  local target <close> = h.target("net10.0", "counters")
  local envelope = during(server, target, 20, function()
    h.loop.sleep_ms(2500)
    target:command("quit", "^BYE")
  end)
  h.ok(notes_of(envelope):find("ProcessEnded", 1, true), "a note that the process ended")
end

local function no_such_process(skip)
  built(skip)
  local server <close> = h.server()
  local target <close> = h.target("net10.0", "idle")
  target:kill()
  h.eq("ProcessNotFound", counters(server, target.pid, 2).error.kind, "a process that is gone")
  h.eq("NotADotnetProcess", counters(server, server.pid, 2).error.kind, "a process that is not .NET")
end

local function suspended(skip)
  built(skip)
  local server <close> = h.server()
  local target <close> = h.target("net10.0", "idle")
  local before = h.usage(server.pid)
  target:signal("STOP")
  local started = h.loop.now_ms()
  local envelope = counters(server, target.pid, 2)
  h.eq("EndpointUnavailable", envelope.error and envelope.error.kind, "error kind")
  h.ok(h.loop.now_ms() - started < 30000, "an answer, in spite of it")
  target:signal("CONT")
  h.eq(nil, counters(server, target.pid, 2).error, "and works again afterwards")
  h.no_session(target)
  h.settled(server, before)
end

local function suspended_in_the_middle(skip)
  built(skip)
  local server <close> = h.server()
  local target <close> = h.target("net10.0", "idle")
  local before = h.usage(server.pid)
  local envelope = during(server, target, 6, function()
    h.loop.sleep_ms(2500)
    target:signal("STOP")
    return true
  end)
  h.eq(nil, envelope.error, "no error")
  h.ok(notes_of(envelope):find("SilentInterval", 1, true), "silence is a finding, got: " .. notes_of(envelope))
  target:signal("CONT")
  h.no_session(target)
  h.settled(server, before)
end

-- What a process that pretends to be a runtime does, and what may be said of it.
local PRETENDERS <const> = { "silent", "garbage", "close", "short", "huge", "error" }

local function pretender(mode)
  return function()
    local server <close> = h.server()
    local fake <close> = h.start({ h.build .. "/tests/live/fake_endpoint", mode }, mode)
    local before = h.usage(server.pid)
    local started = h.loop.now_ms()
    local envelope = counters(server, fake.pid, 2)
    h.eq("EndpointUnavailable", envelope.error and envelope.error.kind, "error kind of: " .. tostring(envelope.summary))
    h.ok(#envelope.hints > 0, "advice")
    local listed = h.ok(server:call("inspect_process", { view = "list" }))
    h.eq(nil, listed.error, "the list works")
    h.eq(nil, h.find(listed.data.list, { processId = fake.pid }), "it is not in the list")
    h.ok(h.json.encode(listed):find("process " .. fake.pid .. " (", 1, true), "it is named with the cause: " .. h.json.encode(listed))
    h.ok(h.loop.now_ms() - started < 30000, "no long wait")
    h.settled(server, before)
  end
end

local function client_goes_away(skip)
  built(skip)
  local server <close> = h.server()
  local target <close> = h.target("net10.0", "idle")
  h.loop.sleep_ms(1600)
  local before = h.usage(server.pid)
  local call = h.loop.spawn(function() return server:call("collect_events", { processId = target.pid, durationSeconds = 60 }) end)
  h.wait_for("the session to open", h.START_MS, function() return h.connections(target.pid) > 0 end)
  h.loop.sleep_ms(1000)
  local left = h.loop.now_ms()
  call:cancel("the client goes away")
  h.no_session(target)
  local took = h.loop.now_ms() - left
  h.ok(took < 3000, ("the session is gone, long before its end, took %d ms"):format(took))
  h.eq(nil, counters(server, target.pid, 2).error, "the target can be asked again")
  h.settled(server, before)
end

local function server_terminated(skip)
  built(skip)
  local server <close> = h.server()
  local targets, jobs = {}, {}
  for i = 1, 3 do targets[i] = h.target("net10.0", "idle") end
  h.loop.sleep_ms(1600)
  for i, target in ipairs(targets) do
    jobs[i] = h.loop.spawn(function() return server:call("collect_events", { processId = target.pid, durationSeconds = 60 }) end)
  end
  for _, target in ipairs(targets) do
    h.wait_for("the session to open", h.START_MS, function() return h.connections(target.pid) > 0 end)
  end
  h.loop.sleep_ms(500)
  local exit = server:stop("TERM")
  h.eq(0, exit.code, "exit code of the server")
  for i, target in ipairs(targets) do
    h.no_session(target)
    local envelope = h.call("inspect_process", { view = "info", processId = target.pid })
    h.eq(nil, envelope.error, "the target answers afterwards")
    jobs[i]:await(5000)
    target:kill()
  end
end

local function logs_on_a_full_disk(skip)
  built(skip)
  local server <close> = h.server { stderr = "/dev/full" }
  local target <close> = h.target("net10.0", "idle")
  h.eq(nil, counters(server, target.pid, 2).error, "a collection with nowhere to log")
  h.eq(0, server:stop("TERM").code, "exit code of the server")
end

local cases = {
  { "a target killed in the middle", killed_in_the_middle },
  { "a target killed before it told a counter", killed_before_a_counter },
  { "a target that ends by itself", ends_by_itself },
  { "a process that is gone, or not .NET", no_such_process },
  { "a suspended target", suspended },
  { "a target suspended in the middle", suspended_in_the_middle },
  { "a client that goes away", client_goes_away },
  { "a server that is terminated during collections", server_terminated },
  { "logs on a full disk", logs_on_a_full_disk },
}
for _, mode in ipairs(PRETENDERS) do cases[#cases + 1] = { "an endpoint that pretends to be a runtime: " .. mode, pretender(mode) } end
return cases
