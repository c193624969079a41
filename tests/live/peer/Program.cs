// SPDX-License-Identifier: MIT
// What TraceEvent counts in recordings: Peer FILE... prints one line of JSON for each.
using System.Text.Json;
using Microsoft.Diagnostics.Tracing;
using Microsoft.Diagnostics.Tracing.Parsers.Clr;

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
