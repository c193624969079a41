// SPDX-License-Identifier: MIT
// Work of known shares for the profiles: CPU that is spent in turns in methods of every kind, and allocations of known bytes at known sites.
using System.Diagnostics;
using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;
using System.Text;
using System.Text.RegularExpressions;

namespace Lunette.Target;

/// <summary>One thread that gives each kind of hot method its milliseconds of a turn of 200, until stop. `shares` tells how many microseconds each had since it
/// was last asked, behind the number of the answer. A sampler that stops threads only at safe points may see a method's caller instead: each kind has a
/// method of its own (Loop, Recursion, ...) that is on the stack for the whole of its time.</summary>
internal sealed class Hot : Threads, ILoad
{
    private sealed record Phase(string Name, int Milliseconds, Action<long> Work)
    {
        public long Ticks;
    }

    private static readonly Regex Words = new("(b|c)+[de]{2,}f?", RegexOptions.CultureInvariant);
    private static readonly string Text = string.Concat(Enumerable.Repeat("abcdebccdeefabx ", 400));
    private static readonly int[] Numbers = Enumerable.Range(0, 20_000).ToArray();
    private static readonly string[] Names = ["one", "two", "three"];
    private static readonly long[] Longs = [1, 2, 3];
    private static long _sink;
    private int _asked;
    private readonly Phase[] _phases =
    [
        new("loop", 60, Loop), new("recursion", 30, Recursion), new("generic_value", 10, GenericValue), new("generic_reference", 10, GenericReference),
        new("lambda", 20, Lambda), new("async", 20, Async), new("linq", 20, Linq), new("regex", 20, Regexes), new("native", 10, Native),
    ];

    protected override IEnumerable<Action> Bodies() => [Turn];

    private void Turn()
    {
        while (Running)
        {
            foreach (var phase in _phases)
            {
                long start = Stopwatch.GetTimestamp();
                phase.Work(start + phase.Milliseconds * Stopwatch.Frequency / 1000);
                Interlocked.Add(ref phase.Ticks, Stopwatch.GetTimestamp() - start);
            }
        }
    }

    public string Command(string[] words)
    {
        if (words[0] != "shares") return "ERROR unknown command";
        var line = new StringBuilder("SHARES ").Append(++_asked);
        foreach (var phase in _phases)
            line.Append(' ').Append(phase.Name).Append('=').Append(Interlocked.Exchange(ref phase.Ticks, 0) * 1_000_000 / Stopwatch.Frequency);
        return line.ToString();
    }

    private static bool Before(long end) => Stopwatch.GetTimestamp() < end;

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static void Loop(long end)
    {
        while (Before(end)) _sink += TightLoop(1_000_000);
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static void Recursion(long end)
    {
        while (Before(end)) _sink += Fibonacci(24);
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static void GenericValue(long end)
    {
        while (Before(end)) _sink += Mixer<long>.Mix(Longs, 200_000);
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static void GenericReference(long end)
    {
        while (Before(end)) _sink += Mixer<string>.Mix(Names, 200_000);
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static void Lambda(long end)
    {
        while (Before(end)) _sink += InLambda(7);
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static void Async(long end)
    {
        while (Before(end)) _sink += WorkAsync(4).GetAwaiter().GetResult();
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static void Linq(long end)
    {
        while (Before(end)) _sink += Numbers.Where(n => n % 3 != 0).Select(n => n * 2L).OrderBy(n => n % 7).Sum();
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static void Regexes(long end)
    {
        while (Before(end)) _sink += Words.Matches(Text).Count;
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static unsafe void Native(long end)
    {
        void* room = NativeMemory.Alloc(1 << 20);
        while (Before(end)) Memset(room, 1, 1 << 20);
        NativeMemory.Free(room);
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static long TightLoop(int n)
    {
        long x = 1;
        for (int i = 0; i < n; i++) x = x * 31 + i; // the hot line of TightLoop
        return x;
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static long Fibonacci(int n) => n < 2 ? n : Fibonacci(n - 1) + Fibonacci(n - 2);

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static long InLambda(int factor)
    {
        Func<int, long> work = n =>
        {
            long x = factor;
            for (int i = 0; i < n; i++) x = x * factor + i; // the hot line of the lambda
            return x;
        };
        return work(600_000);
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static async Task<long> WorkAsync(int rounds)
    {
        long x = 1;
        for (int k = 0; k < rounds; k++)
        {
            await Task.Yield();
            for (int i = 0; i < 300_000; i++) x = x * 17 + i; // the hot line of WorkAsync
        }
        return x;
    }

    [DllImport("libc.so.6", EntryPoint = "memset")]
    private static extern unsafe void* Memset(void* room, int value, nint n);
}

/// <summary>One body for long, one that all reference types share.</summary>
internal static class Mixer<T>
{
    [MethodImpl(MethodImplOptions.NoInlining)]
    public static long Mix(T[] items, int n)
    {
        long x = items.Length;
        for (int i = 0; i < n; i++) x = x * 13 + (items[i % items.Length] is null ? 1 : i);
        return x;
    }
}

/// <summary>N megabytes of four types at four sites, mixed: half are texts, a quarter orders, 15 % arrays of int, a tenth large arrays of byte.</summary>
internal sealed class Sites(int megabytes) : Work
{
    private sealed class Order(int id)
    {
        public int Id = id;
        public long Price = id * 10L, Weight = id;
    }

    private static object? _kept;
    private readonly long[] _bytes = new long[4];
    private readonly long[] _objects = new long[4];

    protected override string Do()
    {
        long start = GC.GetAllocatedBytesForCurrentThread(), end = start + megabytes * 1_000_000L;
        for (int i = 0; GC.GetAllocatedBytesForCurrentThread() < end; i++) Round(i);
        _kept = null;
        long bytes = GC.GetAllocatedBytesForCurrentThread() - start;
        return $"bytes={bytes} text_bytes={_bytes[0]} order_bytes={_bytes[1]} number_bytes={_bytes[2]} blob_bytes={_bytes[3]} "
            + $"texts={_objects[0]} orders={_objects[1]} numbers={_objects[2]} blobs={_objects[3]} thread={ThreadId()}";
    }

    /// <summary>About 2 MB. The steps are mixed, so that no site meets the runtime's 100 KB more often than its share.</summary>
    private void Round(int round)
    {
        Count(3, MakeBlob);
        for (int i = 0; i < 1776; i++)
        {
            int at = (i * 617 + round * 31) % 1776;
            if (at < 977) Count(0, MakeText);
            else if (at < 1483) Count(1, MakeOrders);
            else Count(2, MakeNumbers);
        }
    }

    private void Count(int which, Func<int> make)
    {
        long before = GC.GetAllocatedBytesForCurrentThread();
        _objects[which] += make();
        _bytes[which] += GC.GetAllocatedBytesForCurrentThread() - before;
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static int MakeText()
    {
        _kept = new string('x', 500);
        return 1;
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static int MakeOrders()
    {
        for (int i = 0; i < 25; i++) _kept = new Order(i);
        return 25;
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static int MakeNumbers()
    {
        _kept = new int[250];
        return 1;
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static int MakeBlob()
    {
        _kept = new byte[200_000];
        return 1;
    }
}

/// <summary>N threads that sleep a millisecond at a time, each time at the end of another of 2,000 paths of 20 to 50 calls: many stacks, little CPU.</summary>
internal sealed class Walk(int threads) : Threads
{
    private const int Paths = 2000;
    private static int _calls;

    protected override IEnumerable<Action> Bodies() => Enumerable.Range(1, threads).Select(i => (Action)(() => Go((uint)i * 7919)));

    private void Go(uint at)
    {
        while (Running)
        {
            at = at * 1664525 + 1013904223;
            uint path = (at >> 8) % Paths;
            Step(path * 2654435761, 20 + (int)(path % 31));
        }
    }

    private static void Step(uint path, int depth)
    {
        if (depth == 0)
        {
            Thread.Sleep(1);
            return;
        }
        uint rest = path * 1103515245 + 12345;
        switch (rest >> 16 & 7)
        {
            case 0: Aries(rest, depth - 1); break;
            case 1: Taurus(rest, depth - 1); break;
            case 2: Gemini(rest, depth - 1); break;
            case 3: Cancer(rest, depth - 1); break;
            case 4: Leo(rest, depth - 1); break;
            case 5: Virgo(rest, depth - 1); break;
            case 6: Libra(rest, depth - 1); break;
            default: Scorpio(rest, depth - 1); break;
        }
        _calls++;
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static void Aries(uint path, int depth)
    {
        Step(path, depth);
        _calls++; // what follows a call keeps the frame
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static void Taurus(uint path, int depth)
    {
        Step(path, depth);
        _calls++; // what follows a call keeps the frame
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static void Gemini(uint path, int depth)
    {
        Step(path, depth);
        _calls++; // what follows a call keeps the frame
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static void Cancer(uint path, int depth)
    {
        Step(path, depth);
        _calls++; // what follows a call keeps the frame
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static void Leo(uint path, int depth)
    {
        Step(path, depth);
        _calls++; // what follows a call keeps the frame
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static void Virgo(uint path, int depth)
    {
        Step(path, depth);
        _calls++; // what follows a call keeps the frame
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static void Libra(uint path, int depth)
    {
        Step(path, depth);
        _calls++; // what follows a call keeps the frame
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static void Scorpio(uint path, int depth)
    {
        Step(path, depth);
        _calls++; // what follows a call keeps the frame
    }
}
