// SPDX-License-Identifier: MIT
// Collections and allocations in known numbers.
using System.Runtime.CompilerServices;

namespace Lunette.Target;

internal static class Heap
{
    /// <summary>Whatever is stored here escapes: no allocation is optimised away or put on the stack.</summary>
    public static object? Kept;

    public static int[] Counts() => [GC.CollectionCount(0), GC.CollectionCount(1), GC.CollectionCount(2)];

    /// <summary>NAME0, NAME1 and NAME2: how often generations 0, 1 and 2 were collected; a collection counts for its generation and all below.</summary>
    public static string Since(this int[] before, string name)
    {
        var now = Counts();
        return $"{name}0={now[0] - before[0]} {name}1={now[1] - before[1]} {name}2={now[2] - before[2]}";
    }
}

/// <summary>N induced collections of each generation, the full ones blocking, then allocations until generation 0 was collected N times more.</summary>
internal sealed class Collections(int n) : Work
{
    protected override string Do()
    {
        var all = Heap.Counts();
        Induce();
        string induced = all.Since("induced");
        var natural = Heap.Counts();
        AllocateUntilCollected(natural[0] + n);
        return $"asked0={n} asked1={n} asked2={n} {induced} {natural.Since("natural")} {all.Since("gen")}";
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private void Induce()
    {
        for (int i = 0; i < n; i++) GC.Collect(0);
        for (int i = 0; i < n; i++) GC.Collect(1);
        for (int i = 0; i < n; i++) GC.Collect(2, GCCollectionMode.Forced, blocking: true);
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static void AllocateUntilCollected(int count)
    {
        while (GC.CollectionCount(0) < count) Heap.Kept = new byte[8000];
        Heap.Kept = null;
    }
}

/// <summary>N background collections of a heap of some size, each waited for. The heap is there before READY, and so are the first two
/// collections, which the runtime does otherwise: it has its background thread to make.</summary>
internal sealed class BackgroundCollections : Work
{
    private const int LiveObjects = 400_000, WarmUps = 2, WarmUpMs = 100;
    private readonly int _n;

    public BackgroundCollections(int n)
    {
        _n = n;
        var live = new object[LiveObjects];
        for (int i = 0; i < live.Length; i++) live[i] = new Small(i);
        Heap.Kept = live;
        GC.Collect();
        for (int i = 0; i < WarmUps; i++)
        {
            GC.Collect(2, GCCollectionMode.Forced, blocking: false);
            Thread.Sleep(WarmUpMs);
        }
    }

    protected override string Do()
    {
        var before = Heap.Counts();
        int over = 0;
        for (int i = 0; i < _n; i++) over += CollectInBackground() ? 1 : 0;
        return $"asked={_n} background={over} {before.Since("gen")}";
    }

    /// <summary>True when a background collection began and ended; without concurrent collection there is none.</summary>
    [MethodImpl(MethodImplOptions.NoInlining)]
    private static bool CollectInBackground()
    {
        const int MaxLooks = 5000; // a millisecond and more each
        long last = GC.GetGCMemoryInfo(GCKind.Background).Index;
        GC.Collect(2, GCCollectionMode.Forced, blocking: false);
        for (int i = 0; i < MaxLooks; i++)
        {
            if (GC.GetGCMemoryInfo(GCKind.Background).Index > last) return true;
            Thread.Sleep(1);
        }
        return false;
    }
}

/// <summary>Threads that allocate as fast as they can and keep some of it, with more and less survival in turns: meant for Server GC, whose
/// number of heaps then changes.</summary>
internal sealed class Datas(int threads) : Work
{
    private long _bytes;

    protected override string Do()
    {
        _bytes = 0;
        var before = Heap.Counts();
        var all = Enumerable.Range(0, threads).Select(_ => new Thread(AllocateAndKeep) { IsBackground = true, Name = "datas" }).ToArray();
        foreach (var thread in all) thread.Start();
        foreach (var thread in all) thread.Join();
        return $"threads={threads} bytes={_bytes} server={(System.Runtime.GCSettings.IsServerGC ? 1 : 0)} {before.Since("gen")}";
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private void AllocateAndKeep()
    {
        const int Window = 4096, Round = 100_000;
        var kept = new byte[Window][];
        long before = GC.GetAllocatedBytesForCurrentThread();
        for (int i = 0; Running; i++)
        {
            int window = i / Round % 2 == 0 ? Window : Window / 16;
            kept[i % window] = new byte[100 + i % 64 * 50];
        }
        Interlocked.Add(ref _bytes, GC.GetAllocatedBytesForCurrentThread() - before);
    }
}

/// <summary>40 bytes: header, method table, three longs.</summary>
internal sealed class Small(long a)
{
    public readonly long A = a, B = a, C = a;
}

/// <summary>N of Small, N arrays of 1,000 bytes, N/10 of 200,000 bytes, which are large objects.</summary>
internal sealed class Allocations(int n) : Work
{
    private const int ArrayBytes = 1000, LargeBytes = 200_000;

    protected override string Do()
    {
        long start = GC.GetAllocatedBytesForCurrentThread();
        AllocateSmall();
        long small = GC.GetAllocatedBytesForCurrentThread();
        AllocateArrays();
        long arrays = GC.GetAllocatedBytesForCurrentThread();
        AllocateLarge();
        long large = GC.GetAllocatedBytesForCurrentThread();
        Heap.Kept = null;
        return $"small={n} small_bytes={small - start} arrays={n} array_bytes={arrays - small} large={n / 10} large_bytes={large - arrays} "
            + $"bytes={large - start} thread={ThreadId()}";
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private void AllocateSmall()
    {
        for (int i = 0; i < n; i++) Heap.Kept = new Small(i);
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private void AllocateArrays()
    {
        for (int i = 0; i < n; i++) Heap.Kept = new byte[ArrayBytes];
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private void AllocateLarge()
    {
        for (int i = 0; i < n / 10; i++) Heap.Kept = new byte[LargeBytes];
    }
}
