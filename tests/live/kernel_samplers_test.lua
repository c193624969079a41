-- SPDX-License-Identifier: MIT
-- off_cpu, native-alloc, native-lock-contention and cpu-efficiency of real processes: waits, allocations, mutexes, faults and switches of
-- known amounts on every runtime, what `perf` counts beside them, who may not, and what is left behind: nothing.
local fs = require("lunette.fs")
local h = require("harness")
local k = require("kernel")

local ask, at_once, call, close_to, during = k.ask, k.at_once, k.call, k.close_to, k.during
local managed, need, no_probes_of, numbers_of = k.managed, k.need, k.no_probes_of, k.numbers_of
local start, sum, uprobes = k.start, k.sum, k.uprobes

-- ---- off_cpu --------------------------------------------------------------------------------------------------------------------------

local function waits(runtime)
  return function(skip)
    need(skip, runtime, "sched_switch")
    local server <close> = h.server()
    local target <close> = start(runtime, "waits", 12)
    local envelope, did = during(server, target, { kind = "off_cpu", durationSeconds = 4, topN = 100 })
    k.check_waits(server, envelope, did, 12, runtime)
    local threads = ask(server, envelope, "byThread", { topN = 100 }).threads
    for _, t in ipairs(threads) do
      h.ok(t.topBlockingLeaf, "a leaf")
      h.ok(t.ended or h.fs.stat(("/proc/%d/task/%d"):format(target.pid, t.tid)), "a thread of the target: " .. h.json.encode(t))
    end
    local waiter = h.ok(h.find(threads, { threadName = "known-waiter" }), "the thread that waits for the mutex")
    h.eq("S", waiter.dominantState)
    h.ok(ask(server, envelope, "stack", { stackRank = 1 }).stack.stack[1], "frames")
  end
end

--- A thread that waits all the time has no switch, and is seen with its stack all the same.
local function standing(skip)
  need(skip, "net10.0", "sched_switch")
  local server <close> = h.server()
  local target <close> = start("net10.0", "idle", 1)
  local envelope = call(server, { kind = "off_cpu", processId = target.pid, durationSeconds = 1, topN = 50 })
  local data = envelope.data.offCpu
  h.ok(data.censoredSpans >= 5 and data.censoredOffCpuMicros >= 4000000, "threads that stand: " .. data.censoredSpans)
  local found
  for _, row in ipairs(ask(server, envelope, "topStacks", { topN = 50 }).stacks) do found = found or managed(row, "net10.0", "Main") end
  h.ok(found and found.identity and found.identity.moduleVersionId, "the main thread reads its input below Main")
end

--- The kernel's own count of switches beside ours.
local function beside_perf(skip)
  need(skip, "net10.0", "sched_switch")
  local version = h.loop.exec { argv = { "perf", "--version" }, timeout_ms = 10000 }
  if not version or version.code ~= 0 then skip("no perf program") end
  local server <close> = h.server()
  local target <close> = start("net10.0", "pingpong", 3000)
  -- perf counts from when its command runs until that sees the file "off".
  local dir = h.scratch()
  local command = ("cd %s; touch on; while [ -e %s/on ] && [ ! -e off ]; do sleep 0.05; done"):format(dir, dir)
  local perf = h.loop.spawn(function()
    return h.loop.exec { argv = { "perf", "stat", "-x,", "-e", "context-switches", "-p", tostring(target.pid), "--", "sh", "-c", command },
      timeout_ms = 60000 }
  end)
  h.wait_for("perf to count", h.START_MS, function() return fs.stat(dir .. "/on") end)
  local envelope, did = during(server, target, { kind = "off_cpu", durationSeconds = 5 })
  assert(fs.write_private(dir .. "/off", ""))
  local theirs = tonumber(perf:await(60000).stderr:match("(%d+),,context%-switches"))
  local data = envelope.data.offCpu
  h.ok(theirs, "perf counts")
  h.ok(data.schedSwitches >= 2 * did.rounds * 0.5, "switches of a game of ping-pong: " .. data.schedSwitches)
  h.near(theirs, 0.02 * theirs + 200, data.schedSwitches, "switches by perf")
  h.eq(0, data.cost.eventsLost, "nothing is lost")
end

--- The JIT keeps no frame pointer in a small method of one call: its caller is there all the same.
local function frameless(skip)
  need(skip, "net10.0", "sched_switch")
  need(skip, "net10.0", "uprobe")
  local server <close> = h.server()
  local target <close> = start("net10.0", "frameless", 20)
  local names = { "FramelessBelow", "FramelessMiddle", "FramelessAbove", "ManagedFrameless" }
  local envelope = during(server, target, { kind = "off_cpu", durationSeconds = 3, topN = 50 })
  local _, _, row = sum(ask(server, envelope, "topStacks", { topN = 50 }).stacks, "known_futexes", "futex")
  for _, name in ipairs(names) do h.ok(managed(row, "net10.0", name), "off_cpu: " .. name .. " of " .. h.json.encode(row.stack)) end
  envelope = during(server, target, { kind = "native-alloc", nativeAllocSamplePeriod = 1, durationSeconds = 3, topN = 50 })
  for _, name in ipairs(names) do
    local tree = ask(server, envelope, "call-tree", { rootMethodFilter = "Program." .. name, maxDepth = 20 })
    h.ok(tree.root.inclusiveSamples >= 2 * 20 * 3, ("native-alloc: %d below %s"):format(tree.root.inclusiveSamples, name))
  end
end

-- ---- probes ---------------------------------------------------------------------------------------------------------------------------

local function allocs(runtime)
  return function(skip)
    need(skip, runtime, "uprobe")
    local server <close> = h.server()
    local target <close> = start(runtime, "allocs", 400)
    local envelope, did = during(server, target, { kind = "native-alloc", nativeAllocSamplePeriod = 1, durationSeconds = 3, topN = 50 })
    local data = envelope.data.nativeAlloc
    h.eq("linux-uprobe", data.backend)
    local by_site = {}
    for _, spot in ipairs(data.topHotspots) do by_site[spot.frame.method] = spot.exclusiveSamples end
    h.eq({ did.malloc, did.calloc, did.realloc }, { by_site.known_site_malloc, by_site.known_site_calloc, by_site.known_site_realloc },
      "calls by site")
    h.ok(data.totalHits >= did.malloc + did.calloc + did.realloc, "all calls: " .. data.totalHits)
    h.ok(h.find(data.byFunction, { ["function"] = "calloc" }).hits >= did.calloc, "calls of calloc")
    h.ok(not h.json.encode(data):find("[Bb]ytes\":[1-9]"), "no bytes")
    local wanted = runtime == "aot" and "Program__ManagedAllocs" or "Program.ManagedAllocs"
    local tree = ask(server, envelope, "call-tree", { rootMethodFilter = wanted, maxDepth = 20 })
    local extra = tree.root.inclusiveSamples - did.malloc - did.calloc - did.realloc -- the runtime's own, below the same method
    h.ok(extra >= 0 and extra <= 50, "below managed code: " .. tree.root.inclusiveSamples)
    no_probes_of(server)
    h.ok(h.alive(target.pid), "the target lives")
    target:command("go", "^DONE") -- and works: threads can be made
  end
end

--- Blocks that are not freed, by site, with their bytes; what is freed is not among them.
local function leaks(runtime)
  return function(skip)
    need(skip, runtime, "uprobe")
    local server <close> = h.server()
    local target <close> = start(runtime, "leaks", 200)
    local envelope, did = during(server, target, { kind = "native-alloc", outstanding = true, durationSeconds = 3, topN = 100 })
    local data = envelope.data.nativeAlloc
    local o, by_site = data.outstanding, {}
    if o.incomplete then h.too_slow() end -- records were lost: tried again, a few times
    h.eq({ false, 0 }, { o.incomplete, #o.incompleteReasons }, "whole: " .. h.json.encode(o.incompleteReasons))
    for _, site in ipairs(o.sites) do by_site[site.frame.method] = { site.blocks, site.bytes } end
    h.eq({ did.small, 48 * did.small }, by_site.known_leak_small, "malloc")
    h.eq({ did.grown, 3000 * did.grown }, by_site.known_leak_grown, "realloc of calloc's")
    h.eq({ did.aligned, 256 * did.aligned }, by_site.known_leak_aligned, "posix_memalign")
    h.eq({ 1, 500 }, by_site.known_leaks, "freed by the next run only")
    h.ok(not by_site.known_site_malloc and not by_site.known_site_realloc, "what is freed is not told")
    h.eq({ o.allocatedBlocks - o.freedBlocks, o.allocatedBytes - o.freedBytes }, { o.blocks, o.bytes }, "sums")
    h.ok(o.freedBlocks >= did.freed + did.grown and o.freedOlderBlocks >= 1, "freed: " .. h.json.encode(o))
    h.ok(h.find(data.byFunction, { ["function"] = "free" }).hits >= did.freed // 2, "calls of free")
    local wanted = runtime == "aot" and "Program__ManagedLeaks" or "Program.ManagedLeaks"
    local tree = ask(server, envelope, "call-tree", { rootMethodFilter = wanted, maxDepth = 20 })
    h.ok(tree.root.inclusiveSamples >= did.small + did.grown + did.aligned + 1, "below managed code: " .. tree.root.inclusiveSamples)
    no_probes_of(server)
    target:command("go", "^DONE")
  end
end

local function locks(runtime)
  return function(skip)
    need(skip, runtime, "uprobe")
    local server <close> = h.server()
    local target <close> = start(runtime, "locks", 600)
    local envelope, did = during(server, target,
      { kind = "native-lock-contention", nativeLockContentionSamplePeriod = 1, durationSeconds = 3, topN = 50 })
    local data = envelope.data.nativeLockContention
    h.eq("activity", data.contentionEvidence.level)
    h.eq(data.totalHits, data.contentionEvidence.sampledLockCallCount)
    local site
    for _, spot in ipairs(data.topHotspots) do
      if spot.frame.method == "known_lock_site" then site = spot.exclusiveSamples end
    end
    h.eq(2 * did.locks, site, "calls of lock and unlock at the site")
    no_probes_of(server)
  end
end

--- Each way to watch a function, with the same numbers; threads that start within the window can be made, and are seen where they can.
local function ways(skip)
  need(skip, "net10.0", "breakpoint")
  local hits, profile = require("lunette.hits"), require("lunette.profile")
  local target <close> = start("net10.0", "allocs", 200)
  for _, way in ipairs { "tracefs-uprobe", "hardware-breakpoint", "perf-uprobe" } do
    local builder <close> = assert(profile.new { kind = "cpu" })
    local session <close>, err = hits.open { pid = target.pid, builder = builder, functions = { "calloc", "realloc" }, period = 1,
      way = way }
    if session then
      local task = h.loop.spawn(function() return session:run(3000) end)
      h.loop.sleep_ms(200)
      local did = numbers_of(target:command("go", "^DONE"))
      h.ok(task:await())
      local stats = session:stats()
      h.eq(way, stats.way)
      local calloc = h.find(stats.functions, { name = "calloc" }).calls
      if way == "perf-uprobe" then -- the work is done by a thread that is new
        h.ok(calloc < did.calloc, "threads that start later are not watched")
      else
        h.ok(calloc >= did.calloc, ("%s: calls of calloc: %d of %d"):format(way, calloc, did.calloc))
      end
    else
      h.ok(err.kind == "NotSupported" or err.kind == "PermissionDenied", way .. ": " .. tostring(err))
    end
  end
end

local TRIES <const> = 5 -- servers of cases beside start and remove it first

local function leave_behind(skip, name)
  local libc = h.fs.read("/proc/self/maps", 1024 * 1024):match("(/%S+/libc%.so%.6)")
  local done = h.loop.exec { argv = { "sh", "-c", ("echo 'p:%s/s0p0 %s:0x30000' >> %s"):format(name, libc, k.UPROBES) },
    timeout_ms = 10000 }
  if done.code ~= 0 then skip("uprobe_events is not writable") end
end

local function doctor()
  local done = h.ok(h.loop.exec { argv = { h.lunette, "doctor", "--json" }, timeout_ms = 60000, max_output = 1024 * 1024 })
  return h.find(h.ok(h.json.decode(done.stdout), done.stdout .. done.stderr).checks, { id = "stale-probes" })
end

--- What a process of ours left behind that was killed is told by doctor, with the command that removes it; and goes at the next start of a
--- server, while what another one has stays.
local function left_behind(skip)
  need(skip, "net10.0", "uprobe")
  local removed = false
  for _ = 1, TRIES do
    leave_behind(skip, "lunette_999998_1")
    local told = doctor()
    if told and told.remediation:find("999998", 1, true) then
      h.eq("Degraded", told.status)
      local remedy = told.remediation:gsub("sudo ", "")
      removed = h.ok(h.loop.exec { argv = { "sh", "-c", remedy }, timeout_ms = 10000 }).code == 0
      h.ok(not uprobes():find("lunette_999998_1", 1, true), "it is gone")
      if removed then break end
    end
  end
  h.ok(removed, "doctor tells it, and its remedy removes it")
  leave_behind(skip, "lunette_999999_1")
  local server <close> = h.server()
  h.wait_for("the removal", h.START_MS, function() return not uprobes():find("lunette_999999_1", 1, true) end)
  local still = doctor()
  h.ok(server.pid and not (still and still.remediation:find("999999", 1, true)), "doctor is content")
end

-- ---- counters -------------------------------------------------------------------------------------------------------------------------

local function efficiency(skip)
  need(skip, "net10.0", "cpu_clock")
  local server <close> = h.server()
  local target <close> = start("net10.0", "faults", 3000)
  local envelope, did = during(server, target, { kind = "cpu-efficiency", durationSeconds = 3 })
  local data = envelope.data.cpuEfficiency
  h.ok(data.minorFaults >= did.pages and data.minorFaults < did.pages + 2000, "faults: " .. data.minorFaults)
  h.ok(data.pageFaults >= data.minorFaults and data.taskClockMs > 0 and not envelope.handle, "counters: " .. h.json.encode(data))
  local missing = 0
  for _, name in ipairs { "ipc", "cycles", "instructions", "cacheMissRate", "branchMissRate", "stalledCyclesFrontend",
    "stalledCyclesBackend", "tlbMissRate" } do
    if data[name] == nil then
      missing = missing + 1
      h.ok(table.concat(data.notes, "\n"):find(name .. ": ", 1, true), "a note for " .. name)
    end
  end
  h.eq(missing, #data.notes, "a note each")
  local counted, messages = server:call("collect_sample", { kind = "cpu-efficiency", processId = target.pid, durationSeconds = 2 },
    { progress = true })
  h.ok(counted and counted.data and counted.data.cpuEfficiency, "counters: " .. h.json.encode(counted or messages))
  local told = {}
  for _, message in ipairs(messages) do
    if message.method == "notifications/progress" then told[#told + 1] = message.params.progress end
  end
  h.ok(#told >= 2 and told[#told] == 100, "progress: " .. h.json.encode(told))
  local game <close> = start("net10.0", "pingpong", 2000)
  envelope, did = during(server, game, { kind = "cpu-efficiency", durationSeconds = 3 })
  h.ok(envelope.data.cpuEfficiency.contextSwitches >= did.rounds, "switches: " .. envelope.data.cpuEfficiency.contextSwitches)
end

-- ---- together, and without privilege ---------------------------------------------------------------------------------------------------

local function batch(skip)
  need(skip, "net10.0", "sched_switch")
  local server <close> = h.server()
  local target <close> = start("net10.0", "waits", 3)
  local arguments = { processId = target.pid, durationSeconds = 3, requests = {
    { tool = "collect_sample", kind = "off_cpu" }, { tool = "collect_sample", kind = "native-lock-contention" } } }
  local preview = h.ok(server:call("collect_batch", arguments))
  h.eq("high", preview.safety.riskLevel)
  local envelope = h.ok(server:call("collect_batch", preview.hints[1].suggestedArguments, { timeout_ms = 120000 }))
  h.ok(not envelope.error, "no error: " .. h.json.encode(envelope.error or {}))
  local waits_of, locks_of = envelope.data.results[1].data, envelope.data.results[2].data
  local joined = envelope.data.nativeContentionEvidence
  h.eq(waits_of.nativeContentionEvidence.level, joined.level, "the level is that of the waits")
  h.eq(locks_of.totalHits, joined.sampledLockCallCount, "calls")
end

--- As nobody, on a process of nobody's: errors of the contract, with the cure, and what works works.
local function nobody(skip)
  need(skip, "net10.0", "sched_switch")
  local as = { "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups" }
  local tried = h.loop.exec { argv = { "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", h.lunette, "--version" },
    timeout_ms = 10000 }
  if not tried or tried.code ~= 0 then skip("setpriv is not to be had, or the binary is not everybody's") end
  local paranoid = tonumber(h.fs.read("/proc/sys/kernel/perf_event_paranoid", 16) or "")
  if not paranoid or paranoid < 0 then skip("perf_event_paranoid lets everybody") end
  local target <close> = start("net10.0", "idle", 1, as)
  local function refused(kind)
    local argv = { table.unpack(as) }
    for _, word in ipairs { h.lunette, "call", "collect_sample", "--json", "--approve", "kind=" .. kind, "durationSeconds=1",
      "processId=" .. target.pid } do argv[#argv + 1] = word end
    local done = h.ok(h.loop.exec { argv = argv, timeout_ms = 60000, max_output = 1024 * 1024 })
    return h.ok(h.json.decode(done.stdout), kind .. ": " .. done.stdout .. done.stderr)
  end
  local envelope = refused("off_cpu")
  h.ok(envelope.error and ({ PermissionDenied = true, NotSupported = true })[envelope.error.kind], "off_cpu: " .. h.json.encode(envelope))
  h.ok(envelope.error.message:find("PERFMON", 1, true) or envelope.error.message:find("tracing", 1, true), envelope.error.message)
  h.eq("inspect_process", envelope.hints[1].nextTool)
  envelope = refused("native-alloc")
  if envelope.error then
    h.ok(({ PermissionDenied = true, NotSupported = true })[envelope.error.kind], envelope.error.kind)
  else
    h.eq("linux-breakpoint", envelope.data.nativeAlloc.backend, "breakpoints are everybody's")
  end
  envelope = refused("cpu-efficiency")
  h.ok(not envelope.error and envelope.data.cpuEfficiency.taskClockMs, "counters: " .. h.json.encode(envelope.error or {}))
end

--- A process that dies in the window: what was seen until then, with the names of before, and the end is told; nothing is left.
local function dying(kind)
  return function(skip)
    need(skip, "net10.0", kind == "off_cpu" and "sched_switch" or "uprobe")
    local server <close> = h.server()
    local target <close> = start("net10.0", kind == "off_cpu" and "waits" or "allocs", kind == "off_cpu" and 3 or 200)
    local descriptors = h.usage(server.pid).fds
    local results = h.together {
      function()
        return call(server, { kind = kind, processId = target.pid, durationSeconds = 8, nativeAllocSamplePeriod = 1, topN = 50 })
      end,
      function()
        h.wait_for("events of perf", h.START_MS, function() return h.usage(server.pid).fds >= descriptors + k.EVENTS end)
        h.loop.sleep_ms(k.SETTLE_MS)
        target:command("go", "^DONE")
        target:kill()
        return true
      end,
    }
    local envelope = results[1]
    h.ok(not envelope.error, "what came before is kept: " .. h.json.encode(envelope.error or {}))
    local data = envelope.data.offCpu or envelope.data.nativeAlloc
    h.ok(table.concat(data.notes, "\n"):find("EndedEarly", 1, true), "the end is told: " .. h.json.encode(data.notes))
    h.ok((data.totalHits or data.schedSwitches) > 0, "what came before")
    local text = h.json.encode(data)
    h.ok(text:find("Lunette.Kernel", 1, true), "managed code has the names of before: " .. text)
    no_probes_of(server)
  end
end

--- Without a diagnostics socket there are no names of managed methods, and all the rest.
local function without_socket(skip)
  need(skip, "net10.0", "sched_switch")
  local server <close> = h.server()
  local target <close> = start("net10.0", "waits", 5, { "env", "DOTNET_EnableDiagnostics=0" })
  local envelope, did = during(server, target, { kind = "off_cpu", durationSeconds = 4, topN = 100 })
  local micros = sum(ask(server, envelope, "topStacks", { topN = 100 }).stacks, "known_sleeps", "clock_nanosleep")
  close_to(did.sleeps_slept_us, micros, 5, "sleeps")
  h.ok(table.concat(envelope.data.offCpu.notes, "\n"):find("NoManagedNames: .*EnableDiagnostics=0"), "why names are missing")
  for _, kind in ipairs { "native-alloc", "cpu-efficiency" } do
    envelope = call(server, { kind = kind, processId = target.pid, durationSeconds = 1 })
    h.ok(not envelope.error, kind .. ": " .. h.json.encode(envelope.error or {}))
    local notes = table.concat((envelope.data.nativeAlloc or envelope.data.cpuEfficiency).notes, "\n")
    h.eq(kind == "native-alloc", notes:find("NoManagedNames: .*EnableDiagnostics=0") ~= nil, kind .. ": why names are missing: " .. notes)
  end
end

--- Methods that are compiled within the window are asked for behind it: all have their names.
local function compiled_within(skip)
  need(skip, "net10.0", "sched_switch")
  local server <close> = h.server()
  local target <close> = h.target("net10.0", "fights", 10, { go = false })
  local envelope, did = during(server, target, { kind = "off_cpu", durationSeconds = 4, topN = 100 })
  local _, count, row = sum(ask(server, envelope, "topStacks", { topN = 100 }).stacks, "Monitor.Enter", "futex")
  h.ok(count >= did.wait_n, ("waits for the monitor: %d of %d"):format(count, did.wait_n))
  h.ok(h.json.encode(row.stack):find("Fights.Wait", 1, true), "who waits for it: " .. h.json.encode(row.stack))
  for _, f in ipairs(row.stack) do h.ok(not f.method:find("^0x"), "every frame has a name: " .. h.json.encode(row.stack)) end
end

local FIRST <const>, SECOND <const> = { "net10.0", "net9.0" }, { "net8.0", "aot" }
return {
  { "waits of known length, net10.0 and net9.0", at_once(FIRST, waits) },
  { "waits of known length, net8.0 and aot", at_once(SECOND, waits) },
  { "allocations of known number, net10.0 and net9.0", at_once(FIRST, allocs) },
  { "allocations of known number, net8.0 and aot", at_once(SECOND, allocs) },
  { "blocks that are not freed, net10.0 and net9.0", at_once(FIRST, leaks) },
  { "blocks that are not freed, net8.0 and aot", at_once(SECOND, leaks) },
  { "mutex calls, net8.0 and aot", at_once(SECOND, locks) },
  { "switches beside perf", beside_perf }, { "probes that were left behind", left_behind },
  { "threads that stand, mutex calls, methods without a frame", h.side_by_side(standing, locks("net10.0"), frameless) },
  { "every way to watch a function, faults and switches", h.side_by_side(ways, efficiency) },
  { "a batch of both", batch }, { "as nobody", nobody },
  { "a process that dies, without a diagnostics socket",
    h.side_by_side(dying("off_cpu"), dying("native-alloc"), without_socket, compiled_within) },
}
