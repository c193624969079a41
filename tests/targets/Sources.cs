// SPDX-License-Identifier: MIT
// EventSources of the target's own: one that writes known payloads, one that writes as many events as are asked for.
using System.Diagnostics;
using System.Diagnostics.CodeAnalysis;
using System.Diagnostics.Tracing;
using System.Runtime.CompilerServices;
using System.Text;

namespace Lunette.Target;

[EventSource(Name = "Lunette-Demo")]
internal sealed class DemoSource : EventSource
{
    public static readonly DemoSource Log = new();

    [Event(1, Level = EventLevel.Informational)]
    public void Ping(int number, string text) => WriteEvent(1, number, text);

    [Event(2, Level = EventLevel.Informational, ActivityOptions = EventActivityOptions.Disable)]
    public void OrderStart(int id, string kind) => WriteEvent(2, id, kind);

    [Event(3, Level = EventLevel.Informational, ActivityOptions = EventActivityOptions.Disable)]
    public void OrderStop(int id) => WriteEvent(3, id);

    [Event(4, Level = EventLevel.Warning)]
    public void Bad(double value) => WriteEvent(4, value);
}

/// <summary>Ping(i, "ping i"), OrderStart(i, kind)/OrderStop(i) with four kinds in turns, Bad(i + 0.25) for every second i; i from 1.</summary>
internal sealed class Demo(int n) : Work
{
    private static readonly string[] Kinds = ["book", "food", "toy", "tool"];

    protected override string Do()
    {
        _ = DemoSource.Log;
        for (int i = 1; i <= n; i++) WritePing(i);
        for (int i = 1; i <= n; i++) WriteOrder(i);
        for (int i = 1; i <= n / 2; i++) WriteBad(i);
        return $"ping={n} order_start={n} order_stop={n} bad={n / 2} events={3 * n + n / 2} thread={ThreadId()}";
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static void WritePing(int i) => DemoSource.Log.Ping(i, $"ping {i}");

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static void WriteOrder(int i)
    {
        DemoSource.Log.OrderStart(i, Kinds[i % Kinds.Length]);
        DemoSource.Log.OrderStop(i);
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static void WriteBad(int i) => DemoSource.Log.Bad(i + 0.25);
}

[EventSource(Name = "Lunette-Flood")]
internal sealed class FloodSource : EventSource
{
    public static readonly FloodSource Log = new();

    [UnconditionalSuppressMessage("Trimming", "IL2026", Justification = "numbers and texts only")]
    [Event(1, Level = EventLevel.Informational, ActivityOptions = EventActivityOptions.Disable)]
    public unsafe void WorkStart(int id, string kind, int weight)
    {
        fixed (char* text = kind)
        {
            var data = stackalloc EventData[3];
            data[0] = new EventData { DataPointer = (nint)(&id), Size = sizeof(int) };
            data[1] = new EventData { DataPointer = (nint)text, Size = (kind.Length + 1) * sizeof(char) };
            data[2] = new EventData { DataPointer = (nint)(&weight), Size = sizeof(int) };
            WriteEventCore(1, 3, data);
        }
    }

    [Event(2, Level = EventLevel.Informational, ActivityOptions = EventActivityOptions.Disable)]
    public void WorkStop(int id) => WriteEvent(2, id);
}

/// <summary>WorkStart and, InFlight starts later, WorkStop of the same id, on two threads until `stop`. Ids are unique, kinds "kind00" to "kind15"
/// (low ones more often), weights 1 to 100. What was written while nobody listened is not counted. An array now and then keeps the
/// collector at work, as in any service.</summary>
internal sealed class Flood(int thousandPerSecond) : Work
{
    private const int Threads = 2, Kinds = 16, InFlight = 16, MaxDebtMs = 100, PairsPerArray = 16, ArrayBytes = 8000;
    private static readonly string[] Names = Enumerable.Range(0, Kinds).Select(i => $"kind{i:00}").ToArray();
    private readonly long[] _starts = new long[Kinds], _weights = new long[Kinds];
    private long _stops;
    private int _over;

    protected override string Do()
    {
        Array.Clear(_starts);
        Array.Clear(_weights);
        _stops = _over = 0;
        long since = Stopwatch.GetTimestamp();
        for (int i = 0; i < Threads; i++)
        {
            int first = i;
            new Thread(() => WriteFlood(first)) { IsBackground = true, Name = "flood" }.Start();
        }
        Until(() => Volatile.Read(ref _over) == Threads);
        double ms = Stopwatch.GetElapsedTime(since).TotalMilliseconds;
        var text = new StringBuilder(FormattableString.Invariant(
            $"starts={_starts.Sum()} stops={_stops} events={_starts.Sum() + _stops} weight={_weights.Sum()} elapsed_ms={ms:F0}"));
        for (int i = 0; i < Kinds; i++) text.Append($" {Names[i]}={_starts[i]} {Names[i]}_weight={_weights[i]}");
        return text.ToString();
    }

    /// <summary>The pairs of one thread: ids first, first + 2, first + 4, ...</summary>
    [MethodImpl(MethodImplOptions.NoInlining)]
    private void WriteFlood(int first)
    {
        var log = FloodSource.Log;
        var starts = new long[Kinds];
        var weights = new long[Kinds];
        long stops = 0, pairs = 0, since = Stopwatch.GetTimestamp(), skipped = 0;
        double pairsPerTick = thousandPerSecond * 500.0 / Threads / Stopwatch.Frequency, maxDebt = thousandPerSecond * 0.5 / Threads * MaxDebtMs;
        uint random = 2463534242u + (uint)first;
        while (Running)
        {
            if (thousandPerSecond > 0)
            {
                double debt = (Stopwatch.GetTimestamp() - since) * pairsPerTick - pairs - skipped;
                if (debt > maxDebt) skipped += (long)(debt - maxDebt); // what could not be written in time stays unwritten
                if (debt < 1)
                {
                    Thread.Sleep(1);
                    continue;
                }
            }
            random ^= random << 13;
            random ^= random >> 17;
            random ^= random << 5;
            int kind = (int)Math.Min(random & 15, random >> 4 & 15), weight = 1 + (int)(random >> 8) % 100;
            if (log.IsEnabled())
            {
                starts[kind]++;
                weights[kind] += weight;
                log.WorkStart(Id(first, pairs), Names[kind], weight);
            }
            if (pairs >= InFlight) stops += Stop(log, Id(first, pairs - InFlight));
            if (pairs % PairsPerArray == 0) Heap.Kept = new byte[ArrayBytes];
            pairs++;
        }
        for (long i = Math.Max(0, pairs - InFlight); i < pairs; i++) stops += Stop(log, Id(first, i));
        lock (_starts)
        {
            for (int i = 0; i < Kinds; i++)
            {
                _starts[i] += starts[i];
                _weights[i] += weights[i];
            }
            _stops += stops;
            _over++;
        }
    }

    private static int Id(int first, long pair) => unchecked((int)(first + pair * Threads));

    private static int Stop(FloodSource log, int id)
    {
        if (!log.IsEnabled()) return 0;
        log.WorkStop(id);
        return 1;
    }
}
