// SPDX-License-Identifier: MIT
// What ClrMD says of threads and locks: threads_peer DUMP [DAC], one tab-separated line a thing.
//   thread  managed id, OS id, address, finalizer, number of frames that have a method
//   frame   managed id, instruction pointer, stack pointer, signature, of every frame that has a method
//   lock    object, type, owner's address, recursion, threads that wait to enter; of every sync block that is held
using Microsoft.Diagnostics.Runtime;

using DataTarget target = DataTarget.LoadDump(args[0]);
ClrInfo clr = target.ClrVersions.Single();
// the DAC that belongs to the runtime lies beside it, but for a self-contained single file
string dac = args.Length > 1 ? args[1] : Path.Combine(Path.GetDirectoryName(clr.ModuleInfo.FileName)!, "libmscordaccore.so");
using ClrRuntime runtime = clr.CreateRuntime(dac, ignoreMismatch: true);
foreach (ClrThread thread in runtime.Threads)
{
    ClrStackFrame[] frames = thread.EnumerateStackTrace().Where(f => f.Method != null).ToArray();
    Console.WriteLine($"thread\t{thread.ManagedThreadId}\t{thread.OSThreadId}\t{thread.Address:x}\t{(thread.IsFinalizer ? 1 : 0)}\t{frames.Length}");
    foreach (ClrStackFrame frame in frames)
        Console.WriteLine($"frame\t{thread.ManagedThreadId}\t{frame.InstructionPointer:x}\t{frame.StackPointer:x}\t{frame.Method!.Signature}");
}
foreach (SyncBlock block in runtime.Heap.EnumerateSyncBlocks())
{
    if (!block.IsMonitorHeld) continue;
    Console.WriteLine($"lock\t{block.Object:x}\t{runtime.Heap.GetObject(block.Object).Type?.Name}\t{block.HoldingThreadAddress:x}\t{block.RecursionCount}\t{block.WaitingThreadCount}");
}
