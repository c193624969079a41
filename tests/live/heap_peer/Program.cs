// SPDX-License-Identifier: MIT
// What ClrMD says of a heap: heap_peer WHAT FILE_OR_PID [DAC], one tab-separated line a thing on standard output; figures on standard error.
//   types    MT, count, bytes, name, of every type with an object; Free objects are a type of their own
//   segments heap, kind, start, end, objects, bytes, of every segment or region
//   roots    kind, object, address; handles: kind, object, dependent target; finalizer: object
//   edges    object, then its references, of every object (small heaps only)
//   all      these four, each behind a line "==", name
using System.Diagnostics;
using Microsoft.Diagnostics.Runtime;

string what = args[0], source = args[1];
var clock = Stopwatch.StartNew();
using DataTarget target = int.TryParse(source, out int pid) ? DataTarget.AttachToProcess(pid, suspend: true) : DataTarget.LoadDump(source);
ClrInfo clr = target.ClrVersions.Single();
// the DAC that belongs to the runtime lies beside it, but for a self-contained single file
string dac = args.Length > 2 ? args[2] : Path.Combine(Path.GetDirectoryName(clr.ModuleInfo.FileName)!, "libmscordaccore.so");
using ClrRuntime runtime = clr.CreateRuntime(dac, ignoreMismatch: true);
ClrHeap heap = runtime.Heap;
using var output = new StreamWriter(Console.OpenStandardOutput(), bufferSize: 1 << 16);

string[] known = ["types", "segments", "roots", "edges"];
if (what != "all" && !known.Contains(what))
{
    Console.Error.WriteLine("heap_peer types|segments|roots|edges|all FILE_OR_PID [DAC]");
    return 2;
}
foreach (string one in what == "all" ? known : [what])
{
    if (what == "all") output.WriteLine($"==\t{one}");
    Tell(one);
}
output.Flush();
using (Process self = Process.GetCurrentProcess())
{
    self.Refresh();
    Console.Error.WriteLine($"seconds\t{clock.Elapsed.TotalSeconds:F3}\npeak_bytes\t{self.PeakWorkingSet64}");
}
return 0;

void Types()
{
    var byType = new Dictionary<ulong, (ClrType? Type, long Count, long Bytes)>();
    foreach (ClrObject o in heap.EnumerateObjects())
    {
        ulong mt = o.Type?.MethodTable ?? 0;
        byType.TryGetValue(mt, out var sum);
        byType[mt] = (o.Type, sum.Count + 1, sum.Bytes + (long)o.Size);
    }
    foreach (var (mt, sum) in byType.OrderBy(pair => pair.Key))
        output.WriteLine($"{mt:x}\t{sum.Count}\t{sum.Bytes}\t{sum.Type?.Name}\t{sum.Type?.Module?.Name}\t{sum.Type?.MetadataToken:x}");
}

void Tell(string what)
{
    switch (what)
    {
        case "types":
            Types();
            break;
        case "segments":
            foreach (ClrSegment segment in heap.Segments)
            {
                long objects = 0, bytes = 0;
                foreach (ClrObject o in segment.EnumerateObjects()) { objects++; bytes += (long)o.Size; }
                output.WriteLine($"{segment.SubHeap.Index}\t{segment.Kind}\t{segment.ObjectRange.Start:x}\t{segment.ObjectRange.End:x}\t{objects}\t{bytes}");
            }
            break;
        case "roots":
            foreach (ClrRoot root in heap.EnumerateRoots()) output.WriteLine($"root\t{root.RootKind}\t{root.Object.Address:x}\t{root.Address:x}\t{(root.IsInterior ? 1 : 0)}\t{(root.IsPinned ? 1 : 0)}");
            foreach (ClrHandle handle in runtime.EnumerateHandles()) output.WriteLine($"handle\t{handle.HandleKind}\t{handle.Object.Address:x}\t{handle.Dependent.Address:x}\t{handle.Address:x}");
            foreach (ClrObject o in heap.EnumerateFinalizableObjects()) output.WriteLine($"finalizable\t{o.Type?.Name}\t{o.Address:x}");
            foreach (ClrRoot root in heap.EnumerateFinalizerRoots()) output.WriteLine($"freachable\t{root.Object.Type?.Name}\t{root.Object.Address:x}");
            break;
        case "edges":
            foreach (ClrObject o in heap.EnumerateObjects())
            {
                if (o.IsFree) continue;
                output.Write($"{o.Address:x}");
                foreach (ulong to in o.EnumerateReferenceAddresses(carefully: false, considerDependantHandles: true).Where(to => to != 0).Order()) output.Write($"\t{to:x}");
                output.WriteLine();
            }
            break;
    }
}
