-- SPDX-License-Identifier: MIT
-- collect_thread_snapshot of real processes and dumps: a deadlock, stalls and starvation found by the matching view on every runtime;
-- threads, frames and locks equal ClrMD's on the same dump; however a worker or a target ends, the target is never left standing.
local clrmd = require("clrmd")
local h = require("harness")
local memory = require("lunette.memory")
local proc = require("lunette.proc")

local RUNTIMES <const> = { "net10.0", "net9.0", "net8.0" }
local BEHIND <const> = 3

local function build(runtime)
  local done = assert(h.loop.exec {
    argv = { "sh", h.source .. "/tests/targets/memory/build.sh", h.targets .. "/memory", runtime }, timeout_ms = 600000,
    max_output = 1024 * 1024,
  })
  if done.code == 0 then return true end
  if done.code == h.SKIP then return nil, (done.stdout:gsub("%s+$", "")) end
  error("tests/targets/memory/build.sh failed: " .. done.stdout .. done.stderr)
end

local function start(runtime, mode, n)
  return h.start({ ("%s/memory/%s/lunette-memory"):format(h.targets, runtime), mode, n and tostring(n) }, "memory " .. mode)
end

-- All runtimes that are here, side by side.
local function each_runtime(skip, fn)
  local todo, reason = {}, nil
  for _, runtime in ipairs(RUNTIMES) do
    local built, why = build(runtime)
    if built then todo[#todo + 1] = function() fn(runtime) end else reason = why end
  end
  if #todo == 0 then skip(reason) end
  h.together(todo)
end

local function one(skip, mode, n)
  local built, why = build("net10.0")
  if not built then skip(why) end
  return start("net10.0", mode, n)
end

--- What a target said of itself.
local function told(target, name) return math.tointeger(tonumber(h.ok(target.ready:match(name .. "=(%d+)"), name))) end

local function acknowledged(server, name, arguments)
  local envelope = h.ok(server:call(name, arguments))
  local wanted = envelope.safetyApproval and envelope.safetyApproval.requiredAcknowledgement
  if not wanted then return envelope end
  local again = { _dotnetDiagnostics = { acknowledgement = wanted } }
  for k, v in pairs(arguments) do again[k] = v end
  return h.ok(server:call(name, again))
end

local function snapshot(server, arguments)
  local envelope = acknowledged(server, "collect_thread_snapshot", arguments)
  h.eq(nil, envelope.error, "the snapshot")
  return envelope.data, envelope
end

local function view(server, handle, name, more)
  local arguments = { handle = handle, view = name }
  for k, v in pairs(more or {}) do arguments[k] = v end
  local envelope = acknowledged(server, "query_snapshot", arguments)
  h.eq(nil, envelope.error, name)
  return envelope.data, envelope
end

local function runs(target)
  local stat = h.ok(proc.stat(target.pid), "the target lives")
  h.ok(stat.state ~= "T" and stat.state ~= "t", "the target runs: " .. stat.state)
  target:command("ping", "^PONG")
end

-- ---- what is found ------------------------------------------------------------------------------------------------------------------

local function check_deadlock(server, target, arguments)
  local first, second = told(target, "first"), told(target, "second")
  local data, envelope = snapshot(server, arguments)
  h.ok(#data.threads == 6 and #data.threads[1].frames <= 6 and data.locks == nil, "the inline answer is small")
  local ids = { data.threads[1].managedThreadId, data.threads[2].managedThreadId }
  table.sort(ids)
  h.eq({ first, second }, ids, "the deadlocked threads come first")
  h.ok(h.find(envelope.signals, { signal = "threads.by-wait-target" }), "one lock has most waiters")
  h.ok(h.find(envelope.signals, { signal = "correlation.thread-overlap" }), "owners are blocked")
  h.eq("deadlocks", envelope.hints[1].suggestedArguments.view, "the first hint")
  local cycles = view(server, data.handle, "deadlocks").deadlocks
  h.eq(1, #cycles, "circles")
  h.eq({ first, second }, { cycles[1].cycleMembers[1].threadId, cycles[1].cycleMembers[2].threadId }, "its members")
  for _, link in ipairs(cycles[1].lockChain) do
    h.eq({ "stack-inferred", "high", "Monitor" }, { link.source, link.confidence, link.lockKind }, "a link")
  end
  h.eq({ "Lunette.Target.SecondLock", "Lunette.Target.FirstLock" },
    { cycles[1].lockChain[1].lockObjectTypeFullName, cycles[1].lockChain[2].lockObjectTypeFullName }, "what they want")
  local locks = view(server, data.handle, "lock-graph").locks
  h.eq({ "Lunette.Target.FirstLock", first, BEHIND + 1, BEHIND + 1, "SyncBlock" }, { locks[1].objectTypeFullName,
    locks[1].ownerManagedThreadId, locks[1].waitingThreadCount, #locks[1].waitingManagedThreadIds, locks[1].source }, "the first lock")
  if not envelope.summary:find("were not searched for locks", 1, true) then -- the machine was too busy for a short stop
    local quiet = h.ok(h.find(locks, { objectTypeFullName = "Lunette.Target.QuietLock" }), "a thin lock is there")
    h.eq({ told(target, "quiet"), 2, "ThinLock" }, { quiet.ownerManagedThreadId, quiet.recursionCount, quiet.source }, "a thin lock")
  end
  local chains = view(server, data.handle, "wait-chains").waitChains
  h.eq({ true, "cycle" }, { chains.chains[1].isCycle, chains.chains[1].terminalKind }, "the first chain")
  h.eq(BEHIND + 1, chains.totalChains, "those behind lead into the circle")
  local stack = view(server, data.handle, "stack", { threadId = first }).thread
  local frame = h.ok(h.find(stack.frames, { displayName = stack.frames[#stack.frames - 3].displayName }))
  h.ok(h.json.encode(stack.frames):find("Deadlock.TakeFirst()", 1, true), "the stack has the method: " .. frame.displayName)
  return data.handle
end

local function createdump(target, kind)
  local runtime
  for _, path in ipairs(h.ok(proc.maps(target.pid)).files) do
    runtime = path:match("^(.*)/libcoreclr%.so$") or runtime
  end
  local core = h.scratch() .. "/core"
  local done = assert(h.loop.exec {
    argv = { h.ok(runtime, "the runtime's folder") .. "/createdump", "--" .. kind, "-f", core, tostring(target.pid) }, timeout_ms = 120000,
  })
  h.eq(0, done.code, "createdump: " .. done.stdout .. done.stderr)
  return core
end

local function a_deadlock(skip)
  each_runtime(skip, function(runtime)
    local target <close> = start(runtime, "deadlock", BEHIND)
    local root = h.scratch()
    local server <close> = h.server { environment = { MCP_ARTIFACT_ROOT = root } }
    local before = h.usage(server.pid)
    local live = check_deadlock(server, target, { processId = target.pid })
    runs(target)
    local stack = view(server, live, "stack", { threadId = told(target, "first") }).thread
    local lines = h.json.encode(stack.frames)
    h.ok(lines:find("Standstill.cs:%d+"), runtime .. ": frames have lines")
    assert(h.loop.exec { argv = { "mv", createdump(target, "withheap"), root .. "/core" }, timeout_ms = 60000 })
    check_deadlock(server, target, { dumpFilePath = "core" })
    h.settled(server, before)
  end)
end

local function lock_objects(skip)
  each_runtime(skip, function(runtime)
    local target <close> = start(runtime, "locks")
    local server <close> = h.server()
    local data = snapshot(server, { processId = target.pid })
    local cycles = view(server, data.handle, "deadlocks").deadlocks
    h.eq(1, #cycles, runtime .. ": circles")
    h.eq({ told(target, "first"), told(target, "second") }, { cycles[1].cycleMembers[1].threadId, cycles[1].cycleMembers[2].threadId })
    local kind = runtime == "net8.0" and "Monitor" or "Lock"
    h.eq({ kind, "high" }, { cycles[1].lockChain[1].lockKind, cycles[1].lockChain[1].confidence }, runtime)
  end)
end

local function stalls(skip)
  each_runtime(skip, function(runtime)
    local server <close> = h.server()
    do
      local target <close> = start(runtime, "stall", 3)
      local data = snapshot(server, { processId = target.pid })
      local found = view(server, data.handle, "async-stalls").asyncStalls
      local counts = {}
      for i, bucket in ipairs(found.byBucket) do counts[i] = bucket.bucket .. "=" .. bucket.count end
      h.eq("SyncOverAsync=4 ChannelAwait=1 SemaphoreAwait=1", table.concat(counts, " "), runtime)
      local chains = view(server, data.handle, "wait-chains").waitChains.chains
      h.ok(h.json.encode(chains):find("Stall+<Inner>d__", 1, true), runtime .. ": what the threads wait for is named")
      for _, chain in ipairs(chains) do
        local hop = chain.hops[1]
        h.ok(chain.terminalKind == "async-construct" and hop.ownerThreadId == nil and hop.note, "async work has no owner")
      end
    end
    local target <close> = start(runtime, "starve", 4)
    local data = snapshot(server, { processId = target.pid, depth = "detail" })
    h.ok(#data.threads <= 8 and data.locks, "detail")
    local pool = view(server, data.handle, "threadpool").threadPool
    local workers = told(target, "workers")
    h.eq({ workers, workers, 0, workers }, { pool.workers.current, pool.workers.active, pool.workers.idle, pool.workers.max }, "workers")
    h.ok(pool.pendingWorkItems >= told(target, "queued"), "pending: " .. pool.pendingWorkItems)
    local chains = view(server, data.handle, "wait-chains").waitChains
    h.eq({ "threadpool-starvation", workers }, { chains.chains[1].terminalKind, chains.totalChains }, runtime .. ": starvation")
    local stacks = view(server, data.handle, "unique-stacks").uniqueStacks
    h.eq({ workers, 64 }, { stacks[1].threadCount, #stacks[1].signatureHash }, "the workers stand at one place")
  end)
end

-- ---- the peer -----------------------------------------------------------------------------------------------------------------------

local AS_CLRMD <const> = { ["net10.0"] = { "deadlock", "stall" }, ["net9.0"] = { "stall" }, ["net8.0"] = { "deadlock" } }

local function as_clrmd(skip)
  local peer, why = clrmd.build("threads")
  if not peer then skip(why) end
  each_runtime(skip, function(runtime)
    for _, mode in ipairs(AS_CLRMD[runtime]) do
      local target <close> = start(runtime, mode, BEHIND)
      local core = createdump(target, "withheap")
      local server <close> = h.server { environment = { MCP_ARTIFACT_ROOT = core:match("^(.*)/") } }
      local handle = snapshot(server, { dumpFilePath = "core", maxFramesPerThread = 512 }).handle
      clrmd.threads_agree(peer, core, function(name, more) return (view(server, handle, name, more)) end, runtime .. " " .. mode)
    end
  end)
end

-- ---- ends ---------------------------------------------------------------------------------------------------------------------------

local PHASES <const> = { "opening", "stopping", "loading", "walking", "reading" }

local function stands(pid)
  local status = h.fs.read(("/proc/%d/status"):format(pid), 65536) or ""
  return status:match("\nTracerPid:%s+(%d+)") ~= "0" or status:match("\nState:%s+[tT]") ~= nil
end

-- Starts a snapshot and calls fn as soon as it says that it is in a phase. The error it ended with, or nil.
local function interrupted(target, phase, fn)
  local job <close> = assert(memory.start { job = "threads", args = h.json.encode { pid = target.pid }, timeout_ms = 60000 })
  while true do
    local now = job:progress(60000)
    if not now then break end
    if now.text:find(phase, 1, true) then
      fn(job)
      break
    end
  end
  local result, err = job:wait(60000)
  if result then result:close() end
  return err
end

local function killed_workers(skip)
  local target <close> = one(skip, "crowd", 50)
  for _ = 1, 2 do
    for _, phase in ipairs(PHASES) do
      interrupted(target, phase, function(job)
        if job.pid then h.loop.exec { argv = { "kill", "-9", tostring(job.pid) }, timeout_ms = 5000 } end
      end)
      h.wait_for("the target's release after " .. phase, h.START_MS, function() return not stands(target.pid) end)
      runs(target)
    end
  end
end

local function dying_targets(skip)
  for _, phase in ipairs(PHASES) do
    local target <close> = one(skip, "crowd", 20)
    local err = interrupted(target, phase, function() target:kill() end)
    h.ok(err == nil or err.kind == "ProcessExited" or err.kind == "ProcessNotFound" or err.kind == "UnsupportedRuntime"
      or err.kind == "NotADotnetProcess", ("dead while %s: %s"):format(phase, err and tostring(err.kind) .. ": " .. tostring(err) or ""))
  end
end

local function many_rounds(skip)
  local target <close> = one(skip, "deadlock", 0)
  for _ = 1, 10 do
    local result <close> = assert(assert(memory.start { job = "threads", args = h.json.encode { pid = target.pid } }):wait(60000))
    h.ok(result:size() > 1000, "a result")
  end
  h.ok(not stands(target.pid), "it runs")
  runs(target)
end

local function after_the_end(skip)
  local server <close> = h.server()
  local target <close> = one(skip, "deadlock", 0)
  local data = snapshot(server, { processId = target.pid, includeNativeFrames = true })
  local stack = view(server, data.handle, "stack", { threadId = told(target, "first") }).thread
  local native = h.ok(h.find(stack.frames, { kind = "Native" }), "native frames")
  h.ok(native.displayName:find("^[%w%-%._]+[!+].*0x%x+$") and native.rva and native.buildId, "module and number: " .. native.displayName)
  local managed = h.ok(h.find(stack.frames, { kind = "ManagedMethod" }), "managed frames")
  local resolved = view(server, data.handle, "resolve-address", {
    address = ("%s, %s,0x10,%s"):format(native.instructionPointer, managed.instructionPointer, managed.stackPointer),
  }).resolvedAddresses
  h.eq({ "module", "managed", "unmapped-or-not-captured", "mapped-non-module" },
    { resolved[1].kind, resolved[2].kind, resolved[3].kind, resolved[4].kind }, "the four classes")
  h.eq({ native.rva, native.buildId }, { resolved[1].rva, resolved[1].buildId }, "as the frame has it")
  local vars = view(server, data.handle, "frame-vars", { threadId = told(target, "first") }).frameVars
  local text = h.json.encode(vars)
  h.ok(text:find("Lunette.Target.FirstLock", 1, true) and text:find("Lunette.Target.SecondLock", 1, true), "what the frames refer to")
  h.ok(not text:find('"preview"', 1, true), "no text of strings")
  target:kill()
  h.eq(1, #view(server, data.handle, "deadlocks").deadlocks, "the snapshot outlives its process")
  for _, name in ipairs { "resolve-address", "frame-vars" } do
    local envelope = acknowledged(server, "query_snapshot", { handle = data.handle, view = name, address = "0x10", threadId = 4 })
    h.eq("ProcessExited", envelope.error and envelope.error.kind, name)
  end
  h.eq("ThreadNotFound", acknowledged(server, "query_snapshot", { handle = data.handle, view = "stack", threadId = 4711 }).error.kind)
end

--- What strings say that frames refer to: for those who ask for it and may, in the thread that has the words of the command line.
local function values_of_frames(skip)
  local target <close> = one(skip, "deadlock", 0)
  local server <close> = h.server { environment = {
    Auth__BearerTokens__0__Name = "plain", Auth__BearerTokens__0__Token = "plain-token", Auth__BearerTokens__0__Scopes__0 = "root",
    Auth__BearerTokens__1__Name = "all", Auth__BearerTokens__1__Token = "live-test-token", Auth__BearerTokens__1__Scopes__0 = "root",
    Auth__BearerTokens__1__Scopes__1 = "sensitive-heap-read", MCP_BEARER_TOKEN = "",
  } }
  local handle, all = snapshot(server, { processId = target.pid }).handle, server.token
  local function asked(token, flag)
    server.token = token
    local vars, envelope = view(server, handle, "frame-vars", { threadId = 1, includeSensitiveValues = flag })
    server.token = all
    return h.json.encode(vars.frameVars), envelope
  end
  local open = asked(all, true)
  h.ok(open:find('"preview":"deadlock"', 1, true), "with the flag and the scope: " .. open)
  for _, way in ipairs { { all, nil }, { all, false }, { "plain-token", true }, { "plain-token", nil } } do
    local text = asked(way[1], way[2])
    h.ok(not text:find('"preview"', 1, true) and not text:find('"deadlock"', 1, true), "without one of them: " .. text)
  end
  h.ok(asked("plain-token", true):find("Values are hidden", 1, true), "it says so")
end

local function refused(skip)
  local target <close> = one(skip, "deadlock", 0)
  local server <close> = h.server()
  local holder <close> = assert(memory.start { job = "selftest", args = h.json.encode { how = "stop", pid = target.pid } })
  repeat
    local now = h.ok(holder:progress(60000), "the holder's progress")
  until now.text == "holding"
  local envelope = acknowledged(server, "collect_thread_snapshot", { processId = target.pid })
  h.eq("PermissionDenied", envelope.error and envelope.error.kind, "somebody else traces it")
  h.ok(envelope.error.message:find(("traced by process %d"):format(holder.pid), 1, true), "who: " .. envelope.error.message)
  h.ok(h.find(envelope.hints, { nextTool = "collect_process_dump" }), "another way")
  holder:close()
  h.wait_for("the target's release", h.START_MS, function() return not stands(target.pid) end)
  h.eq(nil, acknowledged(server, "collect_thread_snapshot", { processId = target.pid }).error, "then it works")
end

-- Of calls side by side on one process at least one finds the process held, or they follow each other; none fails in another way.
local function side_by_side(skip)
  local target <close> = one(skip, "crowd", 200)
  local server <close> = h.server()
  local call = function() return acknowledged(server, "collect_thread_snapshot", { processId = target.pid }) end
  local done, busy = h.together { call, call, call, call }, 0
  for _, envelope in ipairs(done) do
    busy = busy + (envelope.error and 1 or 0)
    if envelope.error then
      h.eq("Busy", envelope.error.kind, envelope.error.message)
      h.eq("collect_thread_snapshot", envelope.hints[1].nextTool, "the hint repeats the call")
    end
  end
  h.ok(busy < #done, "one at least is served")
  runs(target)
end

local function native_aot(skip)
  local built, why = h.build_target("aot")
  if not built then skip(why) end
  local target <close> = h.target("aot", "idle", nil, { go = false })
  local server <close> = h.server()
  local data = snapshot(server, { processId = target.pid })
  h.eq("linux-native-stack", data.source)
  for _, thread in ipairs(data.threads) do
    h.ok(thread.frames[1].displayName:find("^[%w%-%._]+[!+].*0x%x+$"), thread.frames[1].displayName)
  end
end

local function small_dump(skip)
  local target <close> = one(skip, "deadlock", 0)
  local core = createdump(target, "normal")
  local server <close> = h.server { environment = { MCP_ARTIFACT_ROOT = core:match("^(.*)/") } }
  local data, envelope = snapshot(server, { dumpFilePath = "core" })
  h.ok(envelope.summary:find("LocksNotCaptured", 1, true), "it says what a small dump lacks: " .. envelope.summary)
  local _, found = view(server, data.handle, "deadlocks")
  h.ok(found.summary:find("^Not known"), found.summary)
  -- cut short, and damaged: an error or an answer, and the server goes on
  local script = ("cd %s && head -c $(($(stat -c %%s core) / 2)) core > half && cp core bad && "):format(core:match("^(.*)/"))
    .. "for i in 1 2 3 4 5 6 7 8; do dd if=/dev/urandom of=bad bs=4096 count=20 seek=$((i * 100)) conv=notrunc; done"
  h.eq(0, assert(h.loop.exec { argv = { "sh", "-c", script }, timeout_ms = 60000 }).code, "copies")
  for _, name in ipairs { "half", "bad" } do
    envelope = acknowledged(server, "collect_thread_snapshot", { dumpFilePath = name })
    h.ok(envelope.error or envelope.data, name)
  end
  h.eq(nil, acknowledged(server, "collect_thread_snapshot", { dumpFilePath = "core" }).error, "the server goes on")
end

local function both_sources(skip)
  local target <close> = one(skip, "idle")
  local server <close> = h.server()
  local envelope = server:call("collect_thread_snapshot", { processId = target.pid, dumpFilePath = "core" })
  h.eq("InvalidArgument", envelope.error and envelope.error.kind)
end

--- What is kept is bounded, and said; detail has more than a summary; without the scope nothing is attached to, nor a dump read.
local function bounds_and_scopes(skip)
  local target <close> = one(skip, "deadlock", 4)
  local server <close> = h.server { environment = {
    Auth__BearerTokens__0__Name = "low", Auth__BearerTokens__0__Token = "low-token", Auth__BearerTokens__0__Scopes__0 = "read-counters",
    Auth__BearerTokens__1__Name = "plain", Auth__BearerTokens__1__Token = "live-test-token", Auth__BearerTokens__1__Scopes__0 = "root",
    MCP_BEARER_TOKEN = "",
  } }
  for _, source in ipairs { { processId = target.pid }, { dumpFilePath = "core" } } do
    local envelope = server:call("collect_thread_snapshot", source, { token = "low-token" })
    local err = h.ok(envelope.error, "it is refused")
    h.eq({ "PermissionDenied", "ptrace" }, { err.kind, err.detail }, "the scope")
  end
  local data, envelope = snapshot(server, { processId = target.pid, maxFramesPerThread = 3 })
  h.eq(3, #view(server, data.handle, "stack", { threadId = told(target, "first") }).thread.frames, "frames that are kept")
  h.ok(envelope.summary:find("longer than the 3 frames", 1, true), "it says so: " .. envelope.summary)
  for _, depth in ipairs { { "summary", 6, 6 }, { "detail", 8, 7 }, { "raw", 8, 7 } } do
    data = snapshot(server, { processId = target.pid, depth = depth[1] })
    h.ok(#data.threads <= depth[2] and (depth[1] == "summary") == (data.locks == nil) and #(data.locks or {}) <= 12, depth[1])
    for _, thread in ipairs(data.threads) do h.ok(#thread.frames <= depth[3], depth[1] .. ": frames") end
  end
end

local function short_stop(skip)
  local target <close> = one(skip, "crowd", 500)
  local server <close> = h.server()
  local best = math.huge
  for _ = 1, 3 do
    local data = snapshot(server, { processId = target.pid })
    local hours, minutes, seconds = data.walkDuration:match("^(%d+):(%d+):([%d%.]+)$")
    best = math.min(best, (tonumber(hours) * 60 + tonumber(minutes)) * 60 + tonumber(seconds))
  end
  h.ok(best < 0.5, ("500 threads stood for %.3f s"):format(best))
  runs(target)
end

return {
  { "a deadlock on every runtime, live and of a dump", a_deadlock },
  { "a deadlock of System.Threading.Lock objects", lock_objects },
  { "stalls and starvation on every runtime", stalls },
  { "threads, frames and locks as ClrMD has them", as_clrmd },
  { "a worker killed in every phase", killed_workers },
  { "a target that dies in every phase", dying_targets },
  { "many rounds", many_rounds },
  { "a second look, and after the end", after_the_end },
  { "what frames refer to", values_of_frames },
  { "a target that somebody else holds", refused },
  { "calls side by side", side_by_side },
  { "NativeAOT", native_aot },
  { "a dump without the heap", small_dump },
  { "a process and a dump at once", both_sources },
  { "bounds and scopes", bounds_and_scopes },
  { "500 threads stand for less than half a second", short_stop, alone = true },
}
