// SPDX-License-Identifier: MIT
// Reads a trace with TraceEvent on one thread and asks for every payload field of every event, twice: as a program that reads a trace
// does, and once more with all code compiled and warm. Prints: events, fields, seconds of the first and of the second pass, peak KiB.
using System.Diagnostics;
using Microsoft.Diagnostics.Tracing;
using Microsoft.Diagnostics.Tracing.EventPipe;
using Microsoft.Diagnostics.Tracing.Parsers.Clr;

var (events, fields, first) = Read(args[0]);
long peak = File.ReadLines("/proc/self/status").Where(l => l.StartsWith("VmHWM")).Select(l => long.Parse(l.Split(' ', StringSplitOptions.RemoveEmptyEntries)[1])).First();
var (_, _, second) = Read(args[0]);
Console.WriteLine(FormattableString.Invariant($"{events} {fields} {first:F4} {second:F4} {peak}"));

static (long, long, double) Read(string path)
{
    long events = 0, fields = 0;
    var clock = Stopwatch.StartNew();
    using var source = new EventPipeEventSource(path);
    void Take(TraceEvent e)
    {
        events++;
        int n = e.PayloadNames.Length;
        for (int i = 0; i < n; i++) if (e.PayloadValue(i) != null) fields++;
    }
    source.Clr.All += Take;
    new ClrRundownTraceEventParser(source).All += Take;
    new SampleProfilerTraceEventParser(source).All += Take;
    source.Dynamic.All += Take;
    source.UnhandledEvents += Take;
    source.Process();
    return (events, fields, clock.Elapsed.TotalSeconds);
}
