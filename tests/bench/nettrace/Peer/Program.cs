// SPDX-License-Identifier: MIT
// Reads a trace with TraceEvent on one thread and asks for every payload field of every event. Prints: events, fields, seconds, peak KiB.
// The first pass only warms the code up.
using System.Diagnostics;
using Microsoft.Diagnostics.Tracing;
using Microsoft.Diagnostics.Tracing.EventPipe;
using Microsoft.Diagnostics.Tracing.Parsers.Clr;

Read(args[0]);
GC.Collect();
var clock = Stopwatch.StartNew();
var (events, fields) = Read(args[0]);
double seconds = clock.Elapsed.TotalSeconds;
long peak = File.ReadLines("/proc/self/status").Where(l => l.StartsWith("VmHWM")).Select(l => long.Parse(l.Split(' ', StringSplitOptions.RemoveEmptyEntries)[1])).First();
Console.WriteLine(FormattableString.Invariant($"{events} {fields} {seconds:F4} {peak}"));

static (long, long) Read(string path)
{
    long events = 0, fields = 0;
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
    return (events, fields);
}
