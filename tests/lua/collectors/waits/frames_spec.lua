-- SPDX-License-Identifier: MIT
-- Call sites: the first frame that is not the machinery of locks and waits. Stacks as .NET 8, 9 and 10 have them.
local frames = require("collectors.waits.frames")

local function stack(...)
  local list = {}
  for i, name in ipairs { ... } do list[i] = { name = name ~= "" and name or nil, module = name ~= "" and "m" or nil, address = "0x1" } end
  return { frames = list }
end

local MACHINERY <const> = {
  { "System.Threading.Monitor.Enter_Slowpath(class System.Object)", "System.Threading.Monitor.Enter(class System.Object,bool&)" },
  { "System.Diagnostics.Tracing.NativeRuntimeEventSource.ContentionStart(class System.Threading.Lock)",
    "System.Threading.Lock.TryEnterSlow(int32,value class ThreadId)", "System.Threading.Lock.EnterScope()" },
  { "System.Threading.WaitHandle.WaitOneNoCheck(int32,bool)", "System.Threading.WaitHandle.WaitOne()" },
  { "System.Threading.Monitor.Wait(class System.Object,int32)", "System.Threading.ManualResetEventSlim.Wait(int32)",
    "System.Threading.Tasks.Task.SpinThenBlockingWait(int32)", "System.Threading.Tasks.Task.InternalWaitCore(int32)",
    "System.Runtime.CompilerServices.TaskAwaiter.HandleNonSuccessAndDebuggerNotification(class System.Threading.Tasks.Task)" },
  { "System.Threading.Monitor.Wait(class System.Object,int32)", "System.Threading.SemaphoreSlim.WaitUntilCountOrTimeout(int32)",
    "System.Collections.Concurrent.BlockingCollection`1[System.Int32].Take()" },
  { "System.Threading.WaitHandle.WaitOneNoCheck(int32,bool)", "System.Threading.ReaderWriterLockSlim.WaitOnEvent()",
    "System.Threading.ReaderWriterLockSlim.EnterReadLock()" },
  { "System.Threading.Thread.Join(int32)", "System.Threading.Thread.Join()" },
  { "System.Runtime.EH.DispatchEx(value class System.Runtime.StackFrameIterator&)" },
}

describe("collectors.waits.frames", function()
  it("finds the caller under the machinery, and what it called", function()
    for _, list in ipairs(MACHINERY) do
      local names = { table.unpack(list) }
      names[#names + 1] = "App.Site(int32)"
      names[#names + 1] = "System.Threading.Thread.StartCallback()"
      local site = frames.site(stack(table.unpack(names)))
      assert.same({ "App.Site(int32)", "m", list[#list]:match("^[^(]+") }, { site.method, site.module, site.api })
    end
  end)

  it("has a site where the runtime shows no machinery", function()
    assert.same({ method = "App.Site()", module = "m" }, frames.site(stack("App.Site()", "App.Main()")))
  end)

  it("takes the leaf of a stack that is machinery altogether, and says (unknown) without a name", function()
    assert.equal("System.Threading.Monitor.Wait()", frames.site(stack("System.Threading.Monitor.Wait()")).method)
    assert.equal("(unknown)", frames.site(stack("", "App.Main()")).method)
    assert.same({ method = "(unknown)", module = "(unknown)" }, frames.site(nil))
  end)

  it("skips what a team puts into the lists", function()
    local wrapped = stack("System.Threading.Monitor.Enter(object)", "App.Locks.Guard.Enter()", "App.Site()")
    assert.equal("App.Locks.Guard.Enter()", frames.site(wrapped).method)
    table.insert(frames.LOCKS, "App.Locks.")
    local site = frames.site(wrapped)
    table.remove(frames.LOCKS)
    assert.equal("App.Site()", site.method)
    local skip = frames.skip()
    assert.equal(#frames.LOCKS + #frames.WAITS, #skip)
  end)

  it("knows an attempt with a limit, by the frames above the site only", function()
    assert.is_true(frames.attempt(stack("System.Threading.Monitor.TryEnter_Slowpath(object,int32)", "App.Site()")))
    assert.is_false(frames.attempt(stack("System.Threading.Monitor.Enter_Slowpath(object)", "App.Site()")))
    assert.is_false(frames.attempt(stack("System.Threading.Lock.TryEnterSlow(int32)", "System.Threading.Lock.EnterScope()", "App.Site()")))
    assert.is_false(frames.attempt(stack("App.Site()", "System.Threading.Monitor.TryEnter(object)")))
    assert.is_false(frames.attempt(nil))
  end)

  it("knows threads of the runtime that wait for want of work", function()
    assert.is_true(frames.idle("System.Threading.TimerQueue.TimerThread()"))
    assert.is_true(frames.idle("System.Threading.PortableThreadPool+GateThread.GateThreadStart()"))
    assert.is_false(frames.idle("App.Site()"))
  end)

  it("says how many still wait when not all are kept, and that ends did not come", function()
    assert.equal("3", frames.still_waiting(3, { open = 3, open_rows = { 1, 2, 3 } }))
    assert.equal("2 (of 700, the oldest are kept)", frames.still_waiting(2, { open = 700, open_rows = { 1, 2, 3 } }))
    local notes = {}
    frames.unpaired_note(notes, { replaced = 0, dropped = 0 }, "waits")
    frames.unpaired_note(notes, { replaced = 2, dropped = 1 }, "waits")
    assert.same({ "Unpaired: the end of 3 waits did not come, as when events are lost; they are left out." }, notes)
  end)

  it("shows addresses for frames without a name, and nothing for a stack without any", function()
    assert.same({ "App.Site()", "0x1" }, frames.names(stack("App.Site()", "")))
    assert.is_nil(frames.names(stack("", "")))
    local long = {}
    for i = 1, 40 do long[i] = "App.F" .. i .. "()" end
    assert.equal(frames.MAX_FRAMES, #frames.names(stack(table.unpack(long))))
  end)
end)
