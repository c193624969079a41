// SPDX-License-Identifier: MIT
// What profile.lua does, written in C# on TraceEvent as dotnet-trace's report does it: Peer PATH FOLDER converts the recording to a TraceLog in
// FOLDER, makes a call tree of thread time and prints the methods by exclusive time, then what it took.
using System.Diagnostics;
using System.Globalization;
using Microsoft.Diagnostics.Symbols;
using Diagnostics.Tracing.StackSources;
using Microsoft.Diagnostics.Tracing;
using Microsoft.Diagnostics.Tracing.Etlx;
using Microsoft.Diagnostics.Tracing.Stacks;

CultureInfo.CurrentCulture = CultureInfo.InvariantCulture;
if (args is not [var path, var folder])
{
    Console.Error.WriteLine("usage: Peer PATH FOLDER");
    return 2;
}
long since = Stopwatch.GetTimestamp();
string etlx = TraceLog.CreateFromEventPipeDataFile(path, Path.Combine(folder, "peer.etlx"));
using var symbols = new SymbolReader(TextWriter.Null) { SymbolPath = "" };
using var log = new TraceLog(etlx);
double converted = Stopwatch.GetElapsedTime(since).TotalSeconds;
var source = new MutableTraceEventStackSource(log) { OnlyManagedCodeStacks = true };
new SampleProfilerThreadTimeComputer(log, symbols).GenerateThreadTimeStacks(source);
var folded = new FilterStackSource(new FilterParams { FoldRegExs = "CPU_TIME;UNMANAGED_CODE_TIME" }, source, ScalingPolicyKind.ScaleToData);
var tree = new CallTree(ScalingPolicyKind.ScaleToData) { StackSource = folded };
var rows = tree.ByIDSortedExclusiveMetric().ToList();
double seconds = Stopwatch.GetElapsedTime(since).TotalSeconds;
foreach (var row in rows)
{
    if (row.Name == "ROOT" || row.Name.StartsWith("Thread (") || row.Name.StartsWith("Process")) continue;
    Console.WriteLine($"{row.ExclusiveMetric:F3}\t{row.InclusiveMetric:F3}\t{row.Name}");
}
using var me = Process.GetCurrentProcess();
string status = File.ReadAllText("/proc/self/status");
string peak = status.Split('\n').First(l => l.StartsWith("VmHWM")).Split(' ', StringSplitOptions.RemoveEmptyEntries)[1];
Console.WriteLine($"run seconds={seconds:F4} convert_s={converted:F4} cpu_s={me.TotalProcessorTime.TotalSeconds:F4} peak_kb={peak} etlx_kb={new FileInfo(etlx).Length / 1024}");
return 0;
