-- SPDX-License-Identifier: MIT
-- Triage of targets that each do one known thing: the assessment that a careful engineer would give, on every runtime.
local during = require("during")
local h = require("harness")

local RUNTIMES <const> = { "net10.0", "net9.0", "net8.0" }

local function names(list)
  local out = {}
  for i, item in ipairs(list) do out[i] = item.name end
  return table.concat(out, " ")
end

local function triage(target, seconds, wrapper)
  local arguments = { view = "triage", processId = target.pid, durationSeconds = seconds or 5 }
  local envelope = h.call("inspect_process", arguments, nil, wrapper)
  h.ok(not envelope.error, "triage without an error: " .. h.json.encode(envelope.error or {}))
  local r = envelope.data.triage
  h.eq(2, r.modelVersion, "modelVersion")
  h.eq("known", r.evidence.cpuTopologyStatus, "cpuTopologyStatus")
  h.ok(#r.topIndicators > 0 and #r.topIndicators <= 5, "1 to 5 indicators")
  h.ok(not h.json.encode(envelope):find("I/O", 1, true), "no word of I/O")
  h.ok(#h.json.encode(envelope) < 16384, "a short answer")
  return r, envelope
end

local function said(r) return ("%s; signals: %s; hypotheses: %s"):format(r.assessment, names(r.observedSignals), names(r.hypotheses)) end

-- Far from the thresholds, so that a busy machine does not blur them.
local NUMBER <const> = { contend = 1000, leak = 20 }

-- What each load must look like.
local EXPECT <const> = {
  idle = function(r)
    h.eq("healthy", r.assessment, said(r))
    h.eq("healthy", r.verdict, "verdict")
    h.eq("", names(r.hypotheses), "hypotheses")
  end,
  leak = function(r)
    h.ok(h.find(r.observedSignals, { name = "memory.intra-window-growth" }), "growth is seen: " .. said(r))
    h.ok(h.find(r.hypotheses, { name = "memory.footprint-growth" }), "growth is weighed: " .. said(r))
    h.eq("degraded", r.assessment, said(r))
    h.ok(r.evidence.gcHeapSizeTrend.deltaMb > 20, "the heap grew by tens of MB")
  end,
  starve = function(r)
    h.eq("critical", r.assessment, said(r))
    h.eq("threadpool-starvation", r.verdict, "verdict")
    h.ok(h.find(r.hypotheses, { name = "threadpool.workers-held" }), said(r))
    h.ok(r.evidence.threadPoolQueueLength >= 300, "hundreds of items wait")
  end,
  contend = function(r)
    h.eq("degraded", r.assessment, said(r))
    h.eq("lock-contention", r.verdict, "verdict")
    h.eq("locks.threads-queue-up", r.hypotheses[1] and r.hypotheses[1].name, said(r))
    h.ok(r.evidence.monitorLockContentionCount >= 100, "over a hundred waits an interval")
  end,
}

-- A trend needs three readings of each counter, which come once a second: fewer on a machine that lets neither side run.
local function too_few_readings(counters) return counters.cost.events < 3 * #counters.counters end

--- The within-window trend: none while nothing happens, the heap while it grows from next to nothing, since the leak begins in the window.
local function trend(mode, expected)
  return function(skip)
    local built, why = h.build_target("net10.0")
    if not built then skip(why) end
    local target <close> = h.target("net10.0", mode, nil, { go = false })
    h.loop.sleep_ms(2500)
    local envelope = during.collect(target, { durationSeconds = 6 }, function(t) return expected and t:command("go", "^GOING") end)
    h.ok(not envelope.error, "no error: " .. h.json.encode(envelope.error or {}))
    local signal = h.find(envelope.signals, { signal = "counters.trend" })
    if not expected then return h.eq(nil, signal, "no trend while nothing happens") end
    if too_few_readings(envelope.data.counters) then h.too_slow() end
    local found -- at most five buckets: all that begins at nothing moves as much
    for _, key in ipairs(expected) do found = found or h.find(h.ok(signal, "a trend").buckets, { key = "System.Runtime/" .. key }) end
    h.ok(found and found.magnitude > 0.5, "a bucket of the heap that grew: " .. h.json.encode(signal))
  end
end

local function quiet_loads(runtime)
  return function(skip)
    local built, why = h.build_target(runtime)
    if not built then skip(why) end
    local jobs = {}
    for mode, expect in pairs(EXPECT) do
      jobs[#jobs + 1] = function()
        local target <close> = h.target(runtime, mode, NUMBER[mode])
        h.loop.sleep_ms(2000) -- loads need time to become what they are: the pool to fill, the JIT to be done
        expect((triage(target)))
        h.no_session(target)
        return true
      end
    end
    h.together(jobs)
  end
end

local function cores() return tonumber(h.loop.exec({ argv = { "nproc" }, timeout_ms = 5000 }).stdout) end

--- Triage of a target that burns CPU, beside what the kernel says that it got: a busy machine must not fail the test.
local function burning(runtime, threads)
  local target <close> = h.target(runtime, "burn", threads, { wrapper = h.favoured(-10) })
  h.loop.sleep_ms(1600)
  local cpu, clock = h.cpu_seconds(target.pid), h.loop.now_ms()
  local r, envelope = triage(target, 5, h.favoured(-15))
  local truth = (h.cpu_seconds(target.pid) - cpu) * 1000 / (h.loop.now_ms() - clock)
  local off, most = math.abs(r.evidence.effectiveCoreUsage - truth), math.max(0.1, truth * 0.15)
  if off > most and truth < 0.85 * math.min(threads, cores()) then h.too_slow() end -- others worked, and not the same all the time
  h.near(truth, most, r.evidence.effectiveCoreUsage, "effectiveCoreUsage beside the kernel's count")
  h.no_session(target)
  return r, envelope, truth
end

local function every_core(runtime)
  return function(skip)
    local built, why = h.build_target(runtime)
    if not built then skip(why) end
    local r, envelope, truth = burning(runtime, 2 * cores())
    if truth < 0.92 * cores() then skip(("the machine is busy: the target got %.2f of %d cores"):format(truth, cores())) end
    h.eq("critical", r.assessment, said(r))
    h.eq("cpu-bound", r.verdict, "verdict")
    h.eq("cpu.saturation", r.hypotheses[1] and r.hypotheses[1].name, said(r))
    h.eq("collect_sample", envelope.hints[1].nextTool, "the first hint")
  end
end

local function one_core(skip)
  local built, why = h.build_target("net10.0")
  if not built then skip(why) end
  if cores() < 2 then skip("a machine with one processor") end
  local r, _, truth = burning("net10.0", 1)
  if truth < 0.85 then skip(("the machine is busy: the target got %.2f cores"):format(truth)) end
  h.ok(h.find(r.observedSignals, { name = "cpu.effective-core-consumption" }), "one core is seen: " .. said(r))
  if 100 * truth / cores() < 65 then h.eq("inconclusive", r.assessment, said(r)) end
end

local function waiting(runtime)
  return function(skip)
    local built, why = h.build_target(runtime)
    if not built then skip(why) end
    local target <close> = h.target(runtime, "web", 50)
    h.loop.sleep_ms(4000)
    local r = triage(target, 6)
    -- the queue is told as it is once a second: on a busy machine a window may see it empty each time
    for _ = 1, 2 do
      if h.find(r.observedSignals, { name = "threadpool.queue" }) then break end
      r = triage(target, 6)
    end
    if r.evidence.effectiveCoreUsage >= 0.2 then
      skip(("the machine is busy: waiting took %.2f cores"):format(r.evidence.effectiveCoreUsage))
    end
    h.ok(h.find(r.observedSignals, { name = "requests.p95" }), "slow requests are seen: " .. said(r))
    h.ok(r.evidence.requestDurationP95 >= 0.5, "p95")
    h.ok(h.find(r.hypotheses, { name = "work.waiting-or-backpressure" }), said(r))
    h.ok(r.assessment == "degraded" or r.assessment == "critical", said(r))
    h.no_session(target)
  end
end

local cases = {}
for _, runtime in ipairs(RUNTIMES) do
  cases[#cases + 1] = { "idle, leaking, starved and contended on " .. runtime, quiet_loads(runtime) }
  cases[#cases + 1] = { "every core busy on " .. runtime, every_core(runtime), alone = true }
  cases[#cases + 1] = { "slow requests that wait on " .. runtime, waiting(runtime) }
end
cases[#cases + 1] = { "no trend in an idle process", trend("idle") }
cases[#cases + 1] = { "the trend of a process that begins to leak", trend("leak", { "gc-heap-size", "gc-committed" }) }
cases[#cases + 1] = { "one core of several busy", one_core, alone = true }
return cases
