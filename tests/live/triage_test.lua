-- SPDX-License-Identifier: MIT
-- Triage of targets that each do one known thing: the assessment that a careful engineer would give, on every runtime.
local h = require("harness")

local RUNTIMES <const> = { "net10.0", "net9.0", "net8.0" }

local function names(list)
  local out = {}
  for i, item in ipairs(list) do out[i] = item.name end
  return table.concat(out, " ")
end

local function triage(target, seconds)
  local envelope = h.call("inspect_process", { view = "triage", processId = target.pid, durationSeconds = seconds or 5 })
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

local function quiet_loads(runtime)
  return function(skip)
    local built, why = h.build_target(runtime)
    if not built then skip(why) end
    local jobs = {}
    for mode, expect in pairs(EXPECT) do
      jobs[#jobs + 1] = function()
        local target <close> = h.target(runtime, mode)
        h.loop.sleep_ms(2000) -- loads need time to become what they are: the pool to fill, the JIT to be done
        expect((triage(target)))
        h.no_session(target)
        return true
      end
    end
    h.together(jobs)
  end
end

local function cpu(runtime)
  return function(skip)
    local built, why = h.build_target(runtime)
    if not built then skip(why) end
    local cores = tonumber(h.loop.exec({ argv = { "nproc" }, timeout_ms = 5000 }).stdout)
    local target <close> = h.target(runtime, "burn", cores)
    local r, envelope = triage(target)
    h.eq("critical", r.assessment, said(r))
    h.eq("cpu-bound", r.verdict, "verdict")
    h.eq("cpu.saturation", r.hypotheses[1] and r.hypotheses[1].name, said(r))
    h.near(cores, cores * 0.15, r.evidence.effectiveCoreUsage, "effectiveCoreUsage")
    h.eq("collect_sample", envelope.hints[1].nextTool, "the first hint")
    h.no_session(target)
  end
end

local function one_core(skip)
  local built, why = h.build_target("net10.0")
  if not built then skip(why) end
  local cores = tonumber(h.loop.exec({ argv = { "nproc" }, timeout_ms = 5000 }).stdout)
  if cores < 2 then skip("a machine with one processor") end
  local target <close> = h.target("net10.0", "burn", 1)
  local r = triage(target)
  h.ok(h.find(r.observedSignals, { name = "cpu.effective-core-consumption" }), "one core is seen: " .. said(r))
  h.near(1, 0.25, r.evidence.effectiveCoreUsage, "effectiveCoreUsage")
  if 100 / cores < 70 then h.eq("inconclusive", r.assessment, said(r)) end
end

local function waiting(runtime)
  return function(skip)
    local built, why = h.build_target(runtime)
    if not built then skip(why) end
    local target <close> = h.target(runtime, "web", 60)
    h.loop.sleep_ms(3000)
    local r = triage(target, 6)
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
  cases[#cases + 1] = { "every core busy on " .. runtime, cpu(runtime) }
  cases[#cases + 1] = { "slow requests that wait on " .. runtime, waiting(runtime) }
end
cases[#cases + 1] = { "one core of several busy", one_core }
return cases
