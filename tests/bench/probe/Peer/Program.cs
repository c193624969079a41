// SPDX-License-Identifier: MIT
// What tests/bench/probe/flood.lua declares, written in C# on TraceEvent: Peer file PATH aggregates a recording twice, Peer once PATH once,
// Peer live PID SECONDS a session; file-full, once-full and live-full with the second group. Results come as text lines in the form that
// flood.lua gives them, so that they can be compared.
using System.Diagnostics;
using System.Globalization;
using Microsoft.Diagnostics.NETCore.Client;
using Microsoft.Diagnostics.Tracing;

CultureInfo.CurrentCulture = CultureInfo.InvariantCulture;
bool full = args.Length > 0 && args[0].EndsWith("-full");
string mode = args.Length == 0 ? "" : full ? args[0][..^"-full".Length] : args[0];
if (mode is "file" or "once" && args is [_, var path])
{
    // read from memory, as a trace that was just recorded would be
    var bytes = File.ReadAllBytes(path);
    var flood = Pass(bytes, full, out double first, out double firstCpu);
    long peak = Peak();
    double second = 0, secondCpu = 0;
    if (mode == "file") flood = Pass(bytes, full, out second, out secondCpu);
    flood.Print();
    Console.WriteLine($"run events={flood.Events} first_s={first:F4} first_cpu_s={firstCpu:F4} second_s={second:F4} second_cpu_s={secondCpu:F4} "
        + $"cpu_s={Process.GetCurrentProcess().TotalProcessorTime.TotalSeconds:F4} peak_kb={peak} data_kb={bytes.Length / 1024}");
    return 0;
}
if (mode == "live" && args is [_, var pid, var seconds])
{
    Live(int.Parse(pid), int.Parse(seconds), full);
    return 0;
}
Console.Error.WriteLine("usage: Peer file[-full] PATH | Peer once[-full] PATH | Peer live[-full] PID SECONDS");
return 2;

static Flood Pass(byte[] bytes, bool full, out double seconds, out double cpu)
{
    var flood = new Flood(full);
    long since = Stopwatch.GetTimestamp();
    var before = Process.GetCurrentProcess().TotalProcessorTime;
    using var source = new EventPipeEventSource(new MemoryStream(bytes));
    flood.Attach(source);
    source.Process();
    seconds = Stopwatch.GetElapsedTime(since).TotalSeconds;
    cpu = (Process.GetCurrentProcess().TotalProcessorTime - before).TotalSeconds;
    return flood;
}

static void Live(int pid, int seconds, bool full)
{
    const int BufferMb = 256;
    var flood = new Flood(full);
    EventPipeProvider[] providers = [new("Lunette-Flood", System.Diagnostics.Tracing.EventLevel.Verbose, -1)];
    using var session = new DiagnosticsClient(pid).StartEventPipeSession(
        new EventPipeSessionConfiguration(providers, BufferMb, requestRundown: false, requestStackwalk: false));
    var before = Process.GetCurrentProcess().TotalProcessorTime;
    Console.WriteLine($"READY {Environment.ProcessId} live 0");
    int lost = 0;
    var reader = new Thread(() =>
    {
        using var source = new EventPipeEventSource(session.EventStream);
        flood.Attach(source);
        source.Process();
        lost = source.EventsLost;
    });
    reader.Start();
    Thread.Sleep(seconds * 1000);
    session.Stop();
    reader.Join();
    var after = Process.GetCurrentProcess().TotalProcessorTime;
    flood.Print();
    Console.WriteLine($"run events={flood.Events} lost={lost} dropped=0 window_cpu_s={(after - before).TotalSeconds:F3} cpu_s={after.TotalSeconds:F3} peak_kb={Peak()}");
}

static long Peak() =>
    File.ReadLines("/proc/self/status").Where(l => l.StartsWith("VmHWM")).Select(l => long.Parse(l.Split(' ', StringSplitOptions.RemoveEmptyEntries)[1])).First();

/// <summary>Pairs by id, a group by kind with the durations' quantiles, and the last rows; full: also the starts by kind with the sum of
/// their weights. Fields are named, as in the declaration.</summary>
internal sealed class Flood(bool full)
{
    private const int LastRows = 100;
    private readonly Dictionary<string, Kind> _kinds = new();
    private readonly Dictionary<int, (double AtMs, Kind Kind)> _open = new();
    private readonly Row[] _last = new Row[LastRows];
    private long _seen;
    private long _pairs, _unmatched;

    public long Events;

    private record struct Row(double AtMs, int Thread, bool IsStart, int Id);

    private sealed class Kind(string name)
    {
        public readonly string Name = name;
        public readonly Histogram Durations = new();
        public long Count, Weight;
    }

    public void Attach(TraceEventDispatcher source)
    {
        source.AllEvents += _ => Events++;
        source.Dynamic.AddCallbackForProviderEvent("Lunette-Flood", "Work/Start", OnStart);
        source.Dynamic.AddCallbackForProviderEvent("Lunette-Flood", "Work/Stop", OnStop);
    }

    private void OnStart(TraceEvent e)
    {
        int id = (int)e.PayloadByName("id");
        var name = (string)e.PayloadByName("kind");
        if (!_kinds.TryGetValue(name, out var kind)) _kinds.Add(name, kind = new Kind(name));
        if (full)
        {
            kind.Count++;
            kind.Weight += (int)e.PayloadByName("weight");
        }
        _open[id] = (e.TimeStampRelativeMSec, kind);
        Keep(e, true, id);
    }

    private void OnStop(TraceEvent e)
    {
        int id = (int)e.PayloadByName("id");
        if (_open.Remove(id, out var start))
        {
            _pairs++;
            start.Kind.Durations.Add((long)Math.Round((e.TimeStampRelativeMSec - start.AtMs) * 1e6));
        }
        else _unmatched++;
        Keep(e, false, id);
    }

    private void Keep(TraceEvent e, bool isStart, int id) => _last[_seen++ % LastRows] = new Row(e.TimeStampRelativeMSec, e.ThreadID, isStart, id);

    public void Print()
    {
        Console.WriteLine($"total pairs={_pairs} unmatched={_unmatched} open={_open.Count} seen={_seen}");
        foreach (var kind in _kinds.Values.OrderBy(k => k.Name, StringComparer.Ordinal))
        {
            var d = kind.Durations;
            string starts = full ? $" n={kind.Count} weight={kind.Weight}" : "";
            Console.WriteLine($"kind {kind.Name} pairs={d.Count} p50={d.At(0.50)} p95={d.At(0.95)} p99={d.At(0.99)}{starts}");
        }
        var rows = _last.Take((int)Math.Min(_seen, LastRows)).OrderBy(r => r.Id).ThenBy(r => !r.IsStart);
        Console.WriteLine("last " + string.Join(' ', rows.Select(r => $"{(r.IsStart ? "start" : "stop")}:{r.Id}")));
    }
}

/// <summary>Counts of whole numbers in buckets of relative width 1/64, as an HDR histogram has them.</summary>
internal sealed class Histogram
{
    private const int SubBits = 6, Sub = 1 << SubBits;
    private readonly long[] _buckets = new long[(64 - SubBits + 1) * Sub];

    public long Count;

    public void Add(long value)
    {
        value = Math.Max(0, value);
        _buckets[Index(value)]++;
        Count++;
    }

    private static int Index(long value)
    {
        int shift = Math.Max(0, 63 - System.Numerics.BitOperations.LeadingZeroCount((ulong)value) - SubBits);
        return (shift << SubBits) + (int)(value >> shift);
    }

    /// <summary>The middle of the bucket that holds that share of the values.</summary>
    public long At(double share)
    {
        long rank = (long)Math.Ceiling(share * Count), seen = 0;
        for (int i = 0; i < _buckets.Length; i++)
        {
            seen += _buckets[i];
            if (seen < rank || _buckets[i] == 0) continue;
            if (i < Sub) return i;
            int shift = (i >> SubBits) - 1;
            return ((long)(i - (shift << SubBits)) << shift) + (1L << shift) / 2;
        }
        return 0;
    }
}
