// SPDX-License-Identifier: MIT
// What TraceEvent counts in recordings: Peer FILE... prints one line of JSON for each. Peer --stacks FILE... prints for each the stacks of the
// sample profiler, named by TraceLog, as "root;caller;leaf" with how often each was seen.
using System.Text.Json;
using Microsoft.Diagnostics.Tracing;
using Microsoft.Diagnostics.Tracing.Etlx;
using Microsoft.Diagnostics.Tracing.Parsers.Clr;

if (args.Length > 0 && args[0] == "--stacks")
{
    foreach (string path in args.Skip(1)) Console.WriteLine(JsonSerializer.Serialize(new { path, stacks = Stacks(path) }));
    return;
}

foreach (string path in args)
{
    using var source = new EventPipeEventSource(path);
    var exceptions = new SortedDictionary<string, int>();
    var collections = new int[3];
    int contentions = 0, jitted = 0, assemblies = 0, queued = 0;
    double waited = 0;
    var begun = new Dictionary<int, double>();
    source.Clr.ExceptionStart += e => exceptions[e.ExceptionType] = exceptions.GetValueOrDefault(e.ExceptionType) + 1;
    source.Clr.GCStart += e => collections[e.Depth]++;
    source.Clr.ContentionStart += e => begun[e.ThreadID] = e.TimeStampRelativeMSec;
    source.Clr.ContentionStop += e =>
    {
        if (e.ContentionFlags != ContentionFlags.Managed || !begun.Remove(e.ThreadID, out double since)) return;
        contentions++;
        waited += e.TimeStampRelativeMSec - since;
    };
    source.Clr.MethodJittingStarted += _ => jitted++;
    source.Clr.LoaderAssemblyLoad += _ => assemblies++;
    source.Dynamic.All += e =>
    {
        if (e.ProviderName == "System.Diagnostics.Eventing.FrameworkEventSource" && e.EventName.StartsWith("ThreadPoolEnqueueWork", StringComparison.Ordinal))
            queued++;
    };
    source.Process();
    Console.WriteLine(JsonSerializer.Serialize(new { path, exceptions, collections, contentions, waited, jitted, assemblies, queued }));
}

static SortedDictionary<string, int> Stacks(string path)
{
    string converted = Path.Combine(Path.GetTempPath(), Path.GetRandomFileName() + ".etlx");
    try
    {
        TraceLog.CreateFromEventPipeDataFile(path, converted, new TraceLogOptions { ContinueOnError = false });
        using var log = new TraceLog(converted);
        var stacks = new SortedDictionary<string, int>(StringComparer.Ordinal);
        foreach (TraceEvent e in log.Events)
        {
            if (e.ProviderName != "Microsoft-DotNETCore-SampleProfiler" || e.EventName != "Thread/Sample") continue;
            var frames = new List<string>();
            for (TraceCallStack? at = e.CallStack(); at != null; at = at.Caller)
            {
                string name = at.CodeAddress.FullMethodName;
                frames.Add(name.Length == 0 ? "?" : at.CodeAddress.ModuleName + "!" + name);
            }
            frames.Reverse();
            string stack = string.Join(";", frames);
            stacks[stack] = stacks.GetValueOrDefault(stack) + 1;
        }
        return stacks;
    }
    finally
    {
        File.Delete(converted);
    }
}
