-- SPDX-License-Identifier: MIT
-- collect_events kind=jit over a target that has a known number of methods compiled.
local during = require("during")
local h = require("harness")
local snapshot = require("collectors.jit.snapshot")

local RUNTIMES <const> = { "net10.0", "net9.0", "net8.0" }
local SECONDS <const> = 4
local ALL <const> = 5000
local STORM <const> = 11000
local HOT <const> = "Lunette.Target.Compiling"

local function jit_of(envelope)
  h.ok(not envelope.error, "no error: " .. h.json.encode(envelope.error or {}))
  return envelope.data.jit
end

--- How many methods have a name that begins so, and how often they were compiled in all.
local function methods_named(rows, prefix)
  local n, compilations = 0, 0
  for _, m in ipairs(rows) do
    if m.methodName:sub(1, #prefix) == prefix then n, compilations = n + 1, compilations + m.compilationCount end
  end
  return n, compilations
end

local function method(rows, name)
  return h.ok(h.find(rows, { methodNamespace = HOT, methodName = name }), "a row for " .. name)
end

--- What the target had compiled, in the rows of all methods.
local function known_methods(rows, did)
  h.eq(did.dynamic, (methods_named(rows, "LunetteDynamic")), "dynamic methods")
  local _, instances = methods_named(rows, "SizeOf")
  h.eq(did.instances, instances, "instantiations of SizeOf")
  local hot, loop = method(rows, "HotMethod"), method(rows, "HotLoop")
  h.ok(hot.tier0Count >= 1 and hot.tier1Count == 1, "HotMethod at tier 0 and once at tier 1: " .. h.json.encode(hot))
  h.eq("OptimizedTier1", hot.lastOptimizationTier, "HotMethod's last tier")
  h.ok(hot.reJitCount >= 1, "HotMethod was compiled again")
  h.eq(1, loop.osrCount, "HotLoop was replaced while it ran")
  h.ok(loop.inclusiveJitTimeMs > 0, "HotLoop took time")
end

local function consistent(data)
  local d = data.distribution
  h.eq(data.jitStartCount, data.completedCompilations, "every compilation that began ended")
  h.eq(data.completedCompilations, d.tier0 + d.tier1, "every compilation has a tier")
  h.ok(d.r2rHit > 0 and d.r2rHit <= data.r2rLookupCount, "ReadyToRun lookups")
  h.near(100 * d.r2rHit / data.r2rLookupCount, 0.06, data.r2rHitRatePercent, "hit rate")
  h.ok(d.r2rMissThenJit <= data.r2rLookupCount - d.r2rHit, "misses that were compiled")
  h.ok(d.r2rMissThenJit > 0, "generic instantiations are looked up, not found, and compiled")
  h.ok(data.ilMapCount > 0, "IL maps")
  h.ok(data.jitTimeMs > 0, "JIT time")
  local previous = math.huge
  for _, m in ipairs(data.methods) do
    h.ok(m.inclusiveJitTimeMs <= previous, "methods by inclusive JIT time")
    previous = m.inclusiveJitTimeMs
  end
end

--- The rows of all methods, which Detail has not.
local function all_methods(server, envelope)
  return h.ok(server:call("query_snapshot", { handle = envelope.handle, view = "topMethods", topN = ALL })).data.payload.methods
end

local function known_compilations(skip)
  local server <close> = h.server()
  during.each_runtime(RUNTIMES, skip, function(runtime)
    local target <close> = h.target(runtime, "jit", 60, { go = false })
    local envelope, did = during.both(target, function()
      return h.ok(server:call("collect_events", { kind = "jit", processId = target.pid, durationSeconds = SECONDS, depth = "Detail" }))
    end, during.go)
    local data = jit_of(envelope)
    h.eq({ 60, 6 }, { did.dynamic, did.instances }, runtime .. ": what the target did")
    known_methods(all_methods(server, envelope), did)
    consistent(data)
    h.ok(data.dynamicMethodCount >= 60, "dynamic methods")
    h.eq(nil, envelope.signals, "no storm")
    h.ok(data.cost.events > 0 and data.cost.eventsLost == 0, "the price is said: " .. h.json.encode(data.cost))
    h.no_session(target)
  end)
end

local function same_from_the_recording(skip)
  during.each_runtime(RUNTIMES, skip, function(runtime)
    local target <close> = h.target(runtime, "jit", 40, { go = false })
    local live, recorded, did, live_all, recorded_all = during.live_and_recorded("jit", target, SECONDS)
    local methods = snapshot.methods(recorded_all, ALL)
    known_methods(methods, did)
    h.eq(snapshot.methods(live_all, ALL), methods, runtime .. ": methods")
    for _, name in ipairs { "processId", "jitStartCount", "completedCompilations", "uniqueMethods", "jitTimeMs", "distribution",
      "r2rLookupCount", "reJitCount", "osrCount", "ilMapCount", "dynamicMethodCount", "tier1Percent", "r2rHitRatePercent", "tiering" } do
      h.eq(live[name], recorded[name], runtime .. ": " .. name)
    end
  end)
end

local function views_and_depth(skip)
  local built, why = h.build_target("net10.0")
  if not built then skip(why) end
  local target <close> = h.target("net10.0", "jit", 60, { go = false })
  local server <close> = h.server()
  local envelope, did = during.both(target, function()
    return h.ok(server:call("collect_events", { kind = "jit", processId = target.pid, durationSeconds = SECONDS }))
  end, during.go)
  local data = jit_of(envelope)
  h.eq(10, #data.methods, "methods at Summary")
  h.ok(#h.json.encode(envelope) <= 16384, "a short answer")
  local function view(name, more)
    local arguments = { handle = envelope.handle, view = name }
    for k, v in pairs(more or {}) do arguments[k] = v end
    return h.ok(server:call("query_snapshot", arguments)).data.payload
  end
  local top = view("topMethods", { topN = ALL })
  h.eq(data.uniqueMethods, top.returned, "all methods are behind the handle")
  known_methods(top.methods, did)
  h.eq(data.distribution, view("tierDistribution").distribution, "distribution")
  h.eq(data.completedCompilations, view("summary", { topN = 5 }).completedCompilations, "compilations in the summary view")
  local again = view("reJIT", { topN = 100 })
  h.eq(data.osrCount, again.osrCount, "OSR in the view")
  for _, m in ipairs(again.methods) do h.ok(m.reJitCount + m.osrCount > 0, m.methodName .. " was compiled again") end
  h.eq(nil, h.find(again.methods, { methodName = "LunetteDynamic0" }), "what was compiled once")
end

--- More methods than are listed: the totals and the signal are of all.
local function storm(skip)
  local built, why = h.build_target("net10.0")
  if not built then skip(why) end
  local target <close> = h.target("net10.0", "jit", STORM, { go = false })
  local envelope = during.collect(target, { kind = "jit", durationSeconds = SECONDS + 2 })
  local data = jit_of(envelope)
  local signal = h.ok(h.find(envelope.signals, { signal = "jit.storm" }), "the storm signal: " .. data.healthCheck)
  h.eq("dynamicClass", signal.buckets[1].key, "where the compilations are")
  h.ok(signal.buckets[1].magnitude >= STORM and signal.buckets[1].magnitude < STORM + 100, "all of them: " .. signal.buckets[1].magnitude)
  h.ok(data.healthCheck:find("^storm"), data.healthCheck)
  h.ok(data.dynamicMethodCount >= STORM and data.uniqueMethods >= STORM, "dynamic methods")
  h.eq(data.jitStartCount, data.completedCompilations, "every compilation that began ended")
  h.ok(during.notes(data):find("MethodLimitReached: 10000 methods are listed", 1, true), "the cap: " .. during.notes(data))
  h.eq(10, #data.methods, "methods at Summary")
end

local function nothing(skip)
  local built, why = h.build_target("net10.0")
  if not built then skip(why) end
  local target <close> = h.target("net10.0", "idle")
  h.call("collect_events", { kind = "jit", processId = target.pid, durationSeconds = 1 }) -- being looked at makes it compile once
  local envelope = h.call("collect_events", { kind = "jit", processId = target.pid, durationSeconds = 2, depth = "Detail" })
  local data = jit_of(envelope)
  h.ok(data.completedCompilations < 20, "hardly anything: " .. data.completedCompilations)
  h.eq(nil, envelope.signals, "no signal")
  for _, m in ipairs(data.methods) do h.ok(m.methodNamespace ~= HOT, "nothing of the program") end
end

local function exits(skip)
  local built, why = h.build_target("net10.0")
  if not built then skip(why) end
  local target <close> = h.target("net10.0", "jit", 60, { go = false })
  local envelope, did = during.collect(target, { kind = "jit", durationSeconds = 20, depth = "Detail" }, function(t)
    local done = during.go(t)
    t:kill()
    return done
  end)
  local data = jit_of(envelope)
  h.ok(during.notes(data):find("ProcessEnded", 1, true), "the note: " .. during.notes(data))
  h.ok(data.dynamicMethodCount >= did.dynamic, "what came before is kept: " .. data.dynamicMethodCount)
  h.ok(data.osrCount >= 1, "what came last is kept")
end

local function ahead_of_time(skip)
  local built, why = h.build_target("aot")
  if not built then skip(why) end
  local target <close> = h.target("aot", "idle")
  local envelope = h.call("collect_events", { kind = "jit", processId = target.pid, durationSeconds = 1 })
  h.eq("NotSupported", envelope.error and envelope.error.kind, "no JIT compiler in NativeAOT")
  h.ok(envelope.error.message:find("NativeAOT", 1, true), envelope.error.message)
end

return {
  { "known compilations on 10, 9 and 8", known_compilations },
  { "the same numbers from the recording of the session", same_from_the_recording },
  { "Summary and the views", views_and_depth },
  { "a storm", storm },
  { "nothing happens", nothing },
  { "the target exits in the window", exits },
  { "NativeAOT has none", ahead_of_time },
}
