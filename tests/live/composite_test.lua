-- SPDX-License-Identifier: MIT
-- The calls that are made of others, on live targets: the sweep, a batch, and a watch that captures.
local captures = require("lunette.captures")
local h = require("harness")
local handles = require("lunette.handles")
local scopes = require("lunette.scopes")

local RUNTIMES <const> = { "net10.0", "net9.0", "net8.0" }
local PARTS <const> = { "counters", "gc", "exceptions", "threadpool" }

local function need(skip, runtime)
  local built, why = h.build_target(runtime)
  if not built then skip(why) end
end

--- A starving pool: the sweep judges it, and each part can be asked further.
local function sweep(runtime)
  return function(skip)
    need(skip, runtime)
    local target <close> = h.target(runtime, "starve")
    local server <close> = h.server()
    local envelope = h.ok(server:call("collect_events", { kind = "sweep", processId = target.pid, durationSeconds = 1 }))
    h.ok(not envelope.error, "no error: " .. h.json.encode(envelope.error or {}))
    local s = envelope.data.sweep
    h.eq("critical", s.triage.assessment, "assessment")
    h.eq(0, #s.failures, "failures " .. h.json.encode(s.failures))
    h.ok(s.counters.duration >= "00:00:06", "a window of 6 s: " .. s.counters.duration)
    h.ok(s.threadpool.totalEnqueueEvents >= 40, "the pool's part sees the queue fill: " .. s.threadpool.totalEnqueueEvents)
    h.ok(s.resource.managedVsNative.gcHeapBytes > 100000, "the heap came from the counters")
    h.ok(s.resource.fdCount > 10, "descriptors")
    h.ok(not envelope.handle, "the envelope has no handle of its own")
    for _, part in ipairs(PARTS) do
      local view = h.ok(server:call("query_snapshot", { handle = s.handles[part] }))
      h.ok(not view.error, part .. " can be asked further: " .. h.json.encode(view.error or {}))
    end
    h.ok(#envelope.hints > 0 and envelope.hints[1].priority == "high", "a next step")
    h.ok(#h.json.encode(envelope.data) <= 16384, "a short answer")
    h.no_session(target)
  end
end

-- What a part says of a process that ended in its window: a note, or an error of its own.
local function says_the_end(part)
  local text = h.json.encode(part)
  return text:find("ProcessEnded", 1, true) or text:find("ProcessExited", 1, true)
end

--- A process that ends within a sweep and a batch: what came before is answered, or all parts say that it ended.
local function end_within(skip)
  need(skip, "net10.0")
  local target <close> = h.target("net10.0", "idle")
  local server <close> = h.server()
  local call = h.loop.spawn(function()
    return server:call("collect_events", { kind = "sweep", processId = target.pid, durationSeconds = 60 })
  end)
  local requests = { { tool = "collect_events", kind = "gc" }, { tool = "collect_events", kind = "counters" } }
  local batched = h.loop.spawn(function()
    return server:call("collect_batch", { requests = requests, processId = target.pid, durationSeconds = 60 })
  end)
  h.wait_for("the sessions of both", h.START_MS, function() return h.connections(target.pid) >= #PARTS + #requests end)
  target:kill()
  local envelope = h.ok(call:await(h.START_MS))
  h.ok(says_the_end(envelope), "the sweep says that the process ended: " .. h.json.encode(envelope):sub(1, 400))
  for _, hint in ipairs(envelope.hints) do
    h.eq(nil, (hint.suggestedArguments or {}).processId, "no hint leads to a process that is gone: " .. hint.reason)
  end
  envelope = h.ok(batched:await(h.START_MS))
  h.eq(nil, envelope.error, "the batch itself succeeds")
  h.eq(#requests, #envelope.data.results, "an entry each")
  h.ok(envelope.summary:find("The process has ended.", 1, true), "the batch says so, too: " .. envelope.summary)
  local no_window = envelope.summary:find("0 of 2 entries", 1, true)
  h.ok(no_window or envelope.summary:find(" of 60 s", 1, true), "and how long it saw it: " .. envelope.summary)
  for _, result in ipairs(envelope.data.results) do
    h.ok(says_the_end(result), result.kind .. " says that the process ended: " .. h.json.encode(result):sub(1, 400))
    h.ok(not (result.error and result.data), result.kind .. " has data or an error")
  end
end

--- Who leaves a sweep or a batch takes all of its sessions along.
local function clients_go_away(skip)
  need(skip, "net10.0")
  local target <close> = h.target("net10.0", "idle")
  local server <close> = h.server()
  local requests = { { tool = "collect_events", kind = "gc" }, { tool = "collect_events", kind = "exceptions" } }
  local calls = {
    h.loop.spawn(function() return server:call("collect_events", { kind = "sweep", processId = target.pid, durationSeconds = 60 }) end),
    h.loop.spawn(function()
      return server:call("collect_batch", { requests = requests, processId = target.pid, durationSeconds = 60 })
    end),
  }
  h.wait_for("the sessions of both", h.START_MS, function() return h.connections(target.pid) >= #PARTS + #requests end)
  for _, call in ipairs(calls) do call:cancel("the client goes away") end
  h.no_session(target)
end

--- Gen2 collections by each source that counts them.
local function batch(runtime)
  return function(skip)
    need(skip, runtime)
    local target <close> = h.target(runtime, "gcs", nil, { go = false })
    local server <close> = h.server()
    h.loop.sleep_ms(1600) -- old enough to be asked for counters
    local requests = { { tool = "collect_events", kind = "gc" }, { tool = "collect_events", kind = "counters" },
      { tool = "collect_sample", kind = "cpu-efficiency" } }
    local call = h.loop.spawn(function()
      return server:call("collect_batch", { requests = requests, processId = target.pid, durationSeconds = 5 })
    end)
    h.wait_for("the sessions of the batch", h.START_MS, function() return h.connections(target.pid) >= 2 end)
    target:command("go", "^DONE")
    local envelope = h.ok(call:await(2 * h.START_MS))
    h.ok(not envelope.error, "no error: " .. h.json.encode(envelope.error or {}))
    local results, evidence = envelope.data.results, envelope.data.gen2Evidence
    h.eq("gc counters cpu-efficiency", ("%s %s %s"):format(results[1].kind, results[2].kind, results[3].kind), "order of the request")
    h.ok(results[3].data.taskClockMs > 0 and not results[3].handle, "counters of the kernel, without a handle")
    local gen2 = h.find(results[1].data.generations, { generation = 2 }).count
    h.ok(gen2 >= 5, "Gen2 collections: " .. gen2)
    h.eq(gen2, evidence.gcCollectorWindowCount, "gcCollectorWindowCount")
    h.ok(h.find(results[2].data.counters, { name = "loh-size" }), "the counters that explain Gen2")
    if runtime == "net8.0" then
      h.ok(not evidence.meterProcessCumulative, "8 has no such Meter, and none is made up")
    else
      h.ok(evidence.meterProcessCumulative >= gen2, "the Meter counts since the start: " .. tostring(evidence.meterProcessCumulative))
    end
    for i = 1, 2 do h.ok(not h.ok(server:call("query_snapshot", { handle = results[i].handle })).error, "its handle works") end
    h.no_session(target)
  end
end

-- ---- triggerWhen: no tool announces a capture in this build, so the test does ------------------------------------------------------

local function ctx()
  return {
    principal = scopes.principal("live", { "root" }), transport = "cli", era = "modern", can = function() return false end,
    progress = function() end, state = {},
  }
end

local function watch(target, more)
  local collect_events = require("tools.collect_events")
  local arguments = { kind = "counters", processId = target.pid, captureKind = "cpu-sample", sampleIntervalSeconds = 1 }
  for name, value in pairs(more) do arguments[name] = value end
  local envelope = assert(collect_events:invoke(ctx(), arguments))
  h.ok(not envelope.error, "no error: " .. tostring(envelope.error and envelope.error.message))
  return envelope.data.gatedCapture, envelope
end

local takers = {} -- pid -> what was taken of it: cases run side by side

captures.announce("cpu-sample", { view = "top-methods", capture = function(_, process)
  local taken = takers[process.pid]
  taken[#taken + 1] = process.pid
  if #taken == 2 then return nil, { kind = "NotSupported", message = "the second one fails" } end
  return { handle = handles.put { kind = "cpu-sample", artifact = {}, process_id = process.pid, process_start = process.start_time } }
end })

local function trips(skip)
  need(skip, "net10.0")
  local target <close> = h.target("net10.0", "burn", h.cores(), { wrapper = h.favoured(-10) })
  local taken = {}
  takers[target.pid] = taken
  local gated, envelope = watch(target, { triggerWhen = "cpu>=10", windowSeconds = 300 }) -- no call waits that long for an answer
  h.eq(true, gated.tripped, "tripped")
  h.eq(1, #gated.captures, "one capture")
  h.eq(target.pid, taken[1], "of the target")
  h.ok(gated.captures[1].triggerValue >= 10 and gated.peakValue >= gated.captures[1].triggerValue, "the values")
  h.eq("cpu-sample", gated.captures[1].handleKind, "an ordinary handle")
  local hint = envelope.hints[1]
  h.eq("query_snapshot", hint.nextTool, "the first hint")
  h.eq(gated.captures[1].handle, hint.suggestedArguments.handle, "and its handle")
  local two = watch(target, { triggerWhen = "rssMb>1", windowSeconds = 60, maxCaptures = 2 })
  h.eq(2, #two.captures, "two captures")
  h.eq("NotSupported", two.captures[1].error and two.captures[1].error.kind, "a failed one is a record too")
  h.ok(two.captures[2].handle, "and the watch goes on")
  h.no_session(target)
end

local function never_trips(skip)
  need(skip, "net10.0")
  local target <close> = h.target("net10.0", "idle")
  takers[target.pid] = {}
  local gated, envelope = watch(target, { triggerWhen = "cpu>1000", windowSeconds = 3 })
  h.eq(false, gated.tripped, "tripped")
  h.eq(0, #gated.captures + #takers[target.pid], "captures")
  h.ok(gated.samplesObserved >= 1, "samples: " .. gated.samplesObserved)
  h.ok(envelope.summary:find("did not hold", 1, true), envelope.summary)
  h.no_session(target)
end

local cases = {
  { "a process that dies in a sweep and a batch", end_within },
  { "clients that leave a sweep and a batch", clients_go_away }, { "a watch that trips", trips },
  { "a watch that never trips", never_trips },
}
for _, runtime in ipairs(RUNTIMES) do
  cases[#cases + 1] = { "sweep, " .. runtime, sweep(runtime) }
  cases[#cases + 1] = { "batch, " .. runtime, batch(runtime) }
end
return cases
