-- SPDX-License-Identifier: MIT
-- What is made of a worker's facts about threads: waits, locks, circles, chains, stalls. No process is needed.
local capture = require("threads.capture")
local chains = require("threads.chains")
local locks = require("threads.locks")
local names = require("threads.names")
local recognise = require("threads.recognise")

local WAITS <const> = 0x02000000
local ENTER <const> = "System.Threading.Monitor.Enter(System.Object, Boolean ByRef)"
local SLOW <const> = "System.Threading.Monitor.Enter_Slowpath(System.Object)"
local RELIABLE <const> = "System.Threading.Monitor.ReliableEnter(System.Object, Boolean ByRef)"
local TASK <const> = {
  "System.Threading.Monitor.Wait(System.Object, Int32)",
  "System.Threading.ManualResetEventSlim.Wait(Int32, System.Threading.CancellationToken)",
  "System.Threading.Tasks.Task.InternalWait(Int32, System.Threading.CancellationToken)",
  "System.Threading.Tasks.Task`1[[System.Int32, System.Private.CoreLib]].GetResultCore(Boolean)", "Shop.Cart.Total()",
}
local IDLE <const> = {
  "System.Threading.LowLevelLifoSemaphore.WaitNative(System.Int32)", "System.Threading.PortableThreadPool+WorkerThread.WorkerThreadStart()",
}

-- Facts as a worker writes them, of threads { id, stack = names, refs = objects, flags = }.
local function facts(threads, more)
  local f = {
    pid = 7, live = true, runtime = { kind = "coreclr", version = "10.0.1" }, stopNs = 5e6, notes = {}, threads = {}, nativeThreads = {},
    methods = {}, modules = { { path = "/app/Shop.dll" } }, types = { "Shop.A", "Shop.B", "System.Threading.Tasks.Task" }, locks = {},
    nativeModules = {},
  }
  local known = {}
  for _, t in ipairs(threads) do
    local frames, refs = {}, {}
    for i, name in ipairs(t.stack or {}) do
      if not known[name] then
        f.methods[#f.methods + 1] = { "0x1", name, 0x06000001, 0, false }
        known[name] = #f.methods - 1
      end
      frames[i] = { "managed", "0x10", "0x20", known[name] }
    end
    for i, ref in ipairs(t.refs or {}) do refs[i] = { 0, ref[1], ref[2] } end
    f.threads[#f.threads + 1] = {
      id = t.id, osId = 100 + t.id, address = "0x" .. t.id, flags = t.flags or WAITS, cooperative = false, finalizer = false, gc = false,
      lockCount = 0, frames = frames, refs = refs, ["end"] = "complete",
    }
  end
  for k, v in pairs(more or {}) do f[k] = v end
  return f
end

local function lock(object, type_index, owner, waiters)
  return { object = object, type = type_index, owner = owner and "0x" .. owner or "0x0", recursion = 1, waiters = waiters, kind = "Monitor",
    source = "SyncBlock" }
end

local function deadlocked()
  return capture.artifact(facts({
    { id = 5, stack = { SLOW, ENTER, "Shop.B.Take()" }, refs = { { "0xa", 0 }, { "0xb", 1 } } },
    { id = 4, stack = { SLOW, ENTER, "Shop.A.Take()" }, refs = { { "0xb", 1 }, { "0xa", 0 } } },
    { id = 6, stack = { RELIABLE, "Shop.A.Queue()" }, refs = { { "0xa", 0 } } },
    { id = 9, stack = IDLE },
  }, { locks = { lock("0xa", 0, 4, 2), lock("0xb", 1, 5, 1) } }))
end

describe("threads #unit", function()
  it("splits a method's name at its last dot outside of brackets", function()
    assert.same({ "Ns.Type`1[[System.Int32, Lib.X]]", "Add" }, { names.split("Ns.Type`1[[System.Int32, Lib.X]].Add(System.Int32)") })
    assert.same({ "Ns.Type", ".ctor" }, { names.split("Ns.Type..ctor(System.String)") })
    assert.same({ "Ns.Type", "<.ctor>b__6_0" }, { names.split("Ns.Type.<.ctor>b__6_0()") })
    assert.same({ "Shop.Cart", "Total" }, { names.split("Shop.Cart.Total()") })
    assert.equal("System.Threading.Tasks.Task.GetResultCore", recognise.plain(TASK[4]))
  end)

  it("names the wait of the first frame, and of what the library was asked to do", function()
    local artifact = capture.artifact(facts {
      { id = 1, stack = TASK }, { id = 2, stack = IDLE }, { id = 3, stack = { "Shop.Cart.Spin()" }, flags = 0 },
    })
    assert.same({ "Monitor.Wait", "Task.Wait (blocking)", true },
      { artifact.threads[1].reason, artifact.threads[1].operation, artifact.threads[1].blocked })
    assert.same({ "ThreadPool worker idle wait", false }, { artifact.threads[2].reason, artifact.threads[2].blocked })
    assert.same({ nil, false, "Running" }, { artifact.threads[3].reason, artifact.threads[3].blocked, artifact.threads[3].state })
    assert.same({ "SyncOverAsync" }, { artifact.threads[1].stall, artifact.threads[2].stall, artifact.threads[3].stall })
  end)

  it("finds a circle once, beginning with its lowest thread", function()
    local artifact = deadlocked()
    local cycles = locks.cycles(artifact)
    assert.equal(1, #cycles)
    assert.same({ 4, 5 }, { cycles[1][1].id, cycles[1][2].id })
    local wants = cycles[1][1].wants
    assert.same({ "0xb", "high", "stack-inferred" }, { wants.lock.object, wants.confidence, wants.source })
    assert.same({ 5, 6 }, artifact.locks[1].waiting)
  end)

  it("says where a circle may go through Thread.Join of an owner of a wanted lock", function()
    local deadlocks = require("views.thread-snapshot.deadlocks")
    local JOIN <const> = { "System.Threading.Thread.Join(Int32)", "System.Threading.Thread.Join()", "Shop.A.Stop()" }
    local function summary(n_waiters, joiners)
      local threads, held = {}, {}
      for i = 1, joiners do
        threads[i] = { id = i, stack = JOIN }
        held[i] = lock(("0x%x"):format(9 + i), 0, i, n_waiters)
      end
      threads[#threads + 1] = n_waiters > 0 and { id = 20, stack = { SLOW, ENTER, "Shop.B.Take()" }, refs = { { "0xa", 1 } } }
        or { id = 20, stack = IDLE }
      local artifact = capture.artifact(facts(threads, { locks = held }))
      artifact.walk_ms = 1
      local rows, extras = deadlocks.project(artifact, { topN = 5 }, { id = "H" })
      assert.equal(0, #rows)
      return extras.summary
    end
    local NONE <const> = "No circle of threads that wait for each other's locks. Waits that are no locks (tasks, semaphores) are in "
      .. "wait-chains."
    local REST <const> = " a lock that others want while in Thread.Join: which thread is joined is not known here, and if that one wants "
      .. "the lock, they wait for each other for ever. Look at the stacks."
    assert.equal(NONE .. " Thread 1 owns" .. REST, summary(1, 1))
    assert.equal(NONE .. " Threads 1, 2, 3, 4, 5 and 2 more own" .. REST, summary(1, 7))
    assert.equal(NONE, summary(0, 1))
  end)

  it("counts a thread without an Enter as one that wants a lock only where it waits for nothing else", function()
    local JOIN <const> = { "System.Threading.Thread.Join(Int32)", "System.Threading.Thread.Join()", "Shop.A.Stop()" }
    local artifact = capture.artifact(facts({
      { id = 1, stack = JOIN, refs = { { "0xa", 2 } } }, { id = 2, stack = { "Shop.Cart.Take()" }, refs = { { "0xa", 0 } } },
      { id = 3, stack = TASK, refs = { { "0xa", 3 } } }, { id = 4, stack = JOIN },
    }, { locks = { lock("0xa", 0, 4, 1) } }))
    assert.same({ 2 }, artifact.locks[1].waiting)
    assert.is_nil(artifact.threads[1].wants)
    assert.equal("low", artifact.threads[2].wants.confidence)
    assert.equal(recognise.MONITOR, artifact.threads[2].reason)
    assert.same({ "Thread.Join", "Monitor.Wait" }, { artifact.threads[1].reason, artifact.threads[3].reason })
  end)

  it("ranks owners with waiters before blocked and parked threads", function()
    local ids = {}
    for i, thread in ipairs(locks.decisive(deadlocked())) do ids[i] = thread.id end
    assert.same({ 4, 5 }, { math.min(ids[1], ids[2]), math.max(ids[1], ids[2]) })
    assert.same({ 6, 9 }, { ids[3], ids[4] })
  end)

  it("does not guess an owner that the thread itself is", function()
    local artifact = capture.artifact(facts({ { id = 4, stack = { ENTER, "Shop.A.Take()" }, refs = { { "0xa", 0 } } } },
      { locks = { lock("0xa", 0, 4, 1) } }))
    assert.is_nil(artifact.threads[1].wants)
    assert.equal(0, #locks.cycles(artifact))
  end)

  it("is less sure where a thread may want either of two locks", function()
    local artifact = capture.artifact(facts({
      { id = 1, stack = { ENTER, "Shop.A.Take()" }, refs = { { "0xa", 0 }, { "0xb", 1 } } },
      { id = 2, stack = TASK }, { id = 3, stack = TASK },
    }, { locks = { lock("0xa", 0, 2, 1), lock("0xb", 1, 3, 1) } }))
    assert.equal("medium", artifact.threads[1].wants.confidence)
  end)

  it("follows waits to a circle, to async work, to a starved pool", function()
    local list = chains.of(deadlocked())
    assert.same({ true, "cycle", 2 }, { list[1].is_cycle, list[1].terminal, #list[1].hops })
    assert.same({ "cycle", 6, 3 }, { list[2].terminal, list[2].start.id, #list[2].hops })
    local pool = {
      counts = "0x200020002", min = 2, max = 2, queues = { { name = "workItems", length = 3, address = "0x1" } }, ["local"] = {},
    }
    local stalled = facts({ { id = 1, stack = TASK }, { id = 2, stack = { ENTER, "Shop.A.Take()" }, refs = { { "0xa", 0 } } } },
      { locks = { lock("0xa", 0, 1, 1) } })
    local chain = chains.of(capture.artifact(stalled))[1]
    assert.same({ 2, "async-construct" }, { chain.start.id, chain.terminal })
    assert.same({ "monitor", "async" }, { chain.hops[1].edge, chain.hops[2].edge })
    assert.is_nil(chain.hops[2].owner)
    stalled.pool = pool
    chain = chains.of(capture.artifact(stalled))[1]
    assert.same({ "threadpool-starvation", "threadpool" }, { chain.terminal, chain.hops[3].edge })
    pool.counts = "0x200020001" -- one of two workers is idle
    assert.equal("async-construct", chains.of(capture.artifact(stalled))[1].terminal)
  end)

  it("says that a dump does not know who owns what", function()
    local artifact = capture.artifact(facts({ { id = 1, stack = { ENTER, "Shop.A.Take()" } } }, { live = false }))
    assert.matches("take one with WithHeap", artifact.locks_unknown)
    assert.matches("^LocksNotCaptured: ", artifact.warnings[1])
    artifact.walk_ms = 1
    local _, extras = require("views.thread-snapshot.deadlocks").project(artifact, { topN = 5 }, { id = "H" })
    assert.matches("^Not known", extras.summary)
    _, extras = require("views.thread-snapshot.lock-graph").project(artifact, { topN = 5 })
    assert.matches("^Not known: .*take one with WithHeap. Of 0 locks", extras.summary)
  end)

  it("names native frames by module and number, never by a bare address", function()
    local f = facts({ { id = 1 } }, { nativeModules = { { path = "/lib/libc.so.6", base = "0x1000", buildId = "ab" } } })
    f.threads[1].frames = { { "native", "0x1234", "0x1", 0, "0x234", true }, { "native", "0x99", "0x2", -1, "0x0", false } }
    local artifact = capture.artifact(f)
    local frames = artifact.threads[1].frames
    assert.same({ "libc.so.6+0x234", "<unmapped-or-not-captured 0x99>" }, { frames[1].name, frames[2].name })
  end)

  it("finds the same waits with native frames between, and when few frames are kept", function()
    local function snapshot(max_frames, n_native)
      local f = facts({
        { id = 5, stack = { SLOW, ENTER, "Shop.B.Take()" }, refs = { { "0xa", 0 }, { "0xb", 1 } } },
        { id = 4, stack = { SLOW, ENTER, "Shop.A.Take()" }, refs = { { "0xb", 1 }, { "0xa", 0 } } }, { id = 7, stack = TASK },
      }, { locks = { lock("0xa", 0, 4, 1), lock("0xb", 1, 5, 1) }, nativeModules = { { path = "/lib/libc.so.6", base = "0x1000" } } })
      f.max_frames = max_frames
      for _, thread in ipairs(f.threads) do
        for i = 1, n_native do
          table.insert(thread.frames, 1, { "native", ("0x%x"):format(4096 + i), "0x1", 0, ("0x%x"):format(i), true })
        end
      end
      return capture.artifact(f)
    end
    for _, given in ipairs { { nil, 0 }, { nil, 30 }, { 1, 0 }, { 1, 30 } } do
      local artifact = snapshot(given[1], given[2])
      local cycle, task = locks.cycles(artifact)[1], artifact.by_id[7]
      assert.same({ 4, "high", "high" }, { cycle[1].id, cycle[1].wants.confidence, cycle[2].wants.confidence })
      assert.same({ "Task.Wait (blocking)", "SyncOverAsync", given[1] or given[2] + #TASK },
        { task.operation, task.stall, #task.frames })
      assert.equal(given[1] and "cut" or "complete", task.stack_end)
    end
  end)

  it("gives signals of locks only when somebody waits for one", function()
    local signal = require("lunette.signal")
    local quiet = capture.artifact(facts({ { id = 1, stack = IDLE }, { id = 2, stack = IDLE } }, { locks = { lock("0xa", 0, "1", 0) } }))
    for _, given in ipairs(signal.of_capture("thread-snapshot", quiet, "H")) do
      assert.is_true(given.signal ~= "threads.by-wait-target" and given.signal ~= "correlation.thread-overlap")
    end
  end)

  it("says that stacks are cut, and at how many frames", function()
    local f = facts { { id = 1, stack = IDLE }, { id = 2, stack = IDLE } }
    assert.same({}, capture.artifact(f).warnings)
    f.threads[2]["end"] = "cut"
    assert.same({ "1 stack is longer than the 64 frames that are kept (maxFramesPerThread, at most 512)" }, capture.artifact(f).warnings)
    f.threads[1]["end"], f.max_frames = "cut", 2
    assert.truthy(capture.artifact(f).warnings[1]:find("^2 stacks are longer than the 2 frames"))
  end)

  it("does not take our own stop of a thread that had just begun for one of the program", function()
    local native = {}
    for i, state in ipairs { "t", "T", "S" } do native[i] = { tid = i, osId = i, state = state, frames = {}, ["end"] = "complete" } end
    local threads = capture.artifact(facts({}, { runtime = { kind = "none" }, nativeThreads = native })).threads
    assert.same({ { nil, "?" }, { "Stopped", "T" }, { nil, "S" } }, { { threads[1].reason, threads[1].state },
      { threads[2].reason, threads[2].state }, { threads[3].reason, threads[3].state } })
  end)

  it("counts stacks that are alike", function()
    local artifact = capture.artifact(facts { { id = 1, stack = TASK }, { id = 2, stack = TASK }, { id = 3, stack = IDLE } })
    artifact.walk_ms = 1
    local stacks = require("views.thread-snapshot.unique-stacks")
    local rows = stacks.project(artifact, { topN = 10, framesToHash = 20, minCount = 2 }, { id = "H" })
    assert.equal(1, #rows)
    assert.same({ 2, 64, 2 / 3 }, { rows[1].threadCount, #rows[1].signatureHash, rows[1].threadPercentage })
    local _, err = stacks.project(artifact, { topN = 10, framesToHash = 0 }, { id = "H" })
    assert.equal("InvalidArgument", err.kind)
  end)
end)
