-- SPDX-License-Identifier: MIT
-- Methods of .NET at which threads wait, as leaves of stack samples show them (looked at on 8, 9 and 10, each with one thread a primitive).
-- SpinWait and SpinLock are none: what spins in a program burns its CPU. A lock of .NET 8 and 9 has no frame of its own when it is
-- contended: such a thread stands in the method that wants it, and counts as unknown.
local waits = require("lunette.waits")

return waits {
  reasons = {
    { reason = "Monitor.Wait", names = { "System.Threading.Monitor.Wait", "System.Threading.Monitor.ObjWait" } },
    {
      reason = "Monitor.Enter (contended)",
      names = {
        "System.Threading.Monitor.Enter*", "System.Threading.Monitor.ReliableEnter*", "System.Threading.Monitor.TryEnter*",
        "System.Threading.Lock.TryEnterSlow", "System.Threading.Lock.Enter*",
      },
    },
    { reason = "Thread.Sleep", names = { "System.Threading.Thread.Sleep*", "System.Threading.Thread.UninterruptibleSleep*" } },
    { reason = "Thread.Join", names = { "System.Threading.Thread.Join*" } },
    { reason = "ThreadPool worker idle wait", names = { "System.Threading.LowLevelLifoSemaphore.*" } },
    -- burns CPU for some microseconds before it sleeps; it is for want of work all the same
    { reason = "ThreadPool worker idle spin", names = { "System.Threading.LowLevelSpinWaiter.*" } },
    {
      reason = "ResetEvent.Wait",
      names = {
        "System.Threading.ManualResetEventSlim.Wait*", "System.Threading.CountdownEvent.Wait*",
        "System.Threading.Barrier.SignalAndWait", "System.Threading.Barrier.DiscontinuousWait",
      },
    },
    { reason = "Semaphore.Wait", names = { "System.Threading.SemaphoreSlim.Wait*" } },
    {
      reason = "WaitHandle.Wait",
      names = {
        "System.Threading.WaitHandle.*", "System.Threading.WaitSubsystem*", "System.Threading.LowLevelMonitor.Wait*",
        "System.Threading.Condition.Wait*", "Interop+Kernel32.WaitFor*",
      },
    },
    {
      reason = "Task.Wait (blocking)",
      names = {
        "System.Threading.Tasks.Task.Wait*", "System.Threading.Tasks.Task.InternalWait*",
        "System.Threading.Tasks.Task.SpinThenBlockingWait",
      },
    },
    {
      reason = "Socket I/O",
      names = {
        "Interop+Sys.WaitForSocketEvents", "Interop+Sys.Receive*", "Interop+Sys.Accept", "Interop+Sys.Connect*", "Interop+Sys.Poll",
        "Interop+Sys.Select", "System.Net.Sockets.SocketAsyncEngine.EventLoop",
      },
    },
    { reason = "Stream.Read", names = { "Interop+Sys.Read", "Interop+Sys.ReadStdin", "Interop+Sys.PRead*" } },
    { reason = "Process.Wait", names = { "Interop+Sys.WaitPid*", "Interop+Sys.WaitId*" } },
  },
  note = "Those of .NET itself.",
}
