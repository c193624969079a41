// SPDX-License-Identifier: MIT
// The loads that a triage has to tell apart: nothing, CPU, memory that is kept, a starved thread pool, contended monitors.
using System.Diagnostics;

namespace Lunette.Target;

internal sealed class Idle : ILoad
{
    public void Start() { }
    public void Stop() { }
}

/// <summary>Threads of its own that run until Stop, so that the thread pool stays out of it.</summary>
internal abstract class Threads : ILoad
{
    private readonly List<Thread> _threads = new();
    protected volatile bool Running;

    protected abstract IEnumerable<Action> Bodies();

    public void Start()
    {
        if (Running) return;
        Running = true;
        foreach (var body in Bodies())
        {
            var thread = new Thread(() => body()) { IsBackground = true, Name = GetType().Name };
            _threads.Add(thread);
            thread.Start();
        }
    }

    public virtual void Stop()
    {
        Running = false;
        foreach (var thread in _threads) thread.Join();
        _threads.Clear();
    }
}

internal sealed class Burn(int threads) : Threads
{
    private double _sink;

    protected override IEnumerable<Action> Bodies() => Enumerable.Repeat(Spin, threads);

    private void Spin()
    {
        double x = 1;
        while (Running)
        {
            for (int i = 0; i < 100_000; i++) x = Math.Sqrt(x + i);
        }
        _sink = x;
    }
}

internal sealed class Leak(int megabytesPerSecond) : Threads
{
    private const int ChunkBytes = 64 * 1024; // below the large object heap
    private readonly List<byte[]> _kept = new();

    protected override IEnumerable<Action> Bodies() => [Grow];

    private void Grow()
    {
        var clock = Stopwatch.StartNew();
        long kept = 0;
        while (Running)
        {
            long due = (long)(clock.Elapsed.TotalSeconds * megabytesPerSecond * 1_000_000);
            for (; kept < due; kept += ChunkBytes)
            {
                var chunk = new byte[ChunkBytes];
                Array.Fill(chunk, (byte)1); // touch it: untouched pages cost no memory
                _kept.Add(chunk);
            }
            Thread.Sleep(20);
        }
    }

    public override void Stop()
    {
        base.Stop();
        _kept.Clear();
    }
}

/// <summary>Blocks every pool thread and goes on queueing faster than the pool adds threads.</summary>
internal sealed class Starve(int itemsPerSecond) : Threads
{
    private const int AtOnce = 400;
    private readonly ManualResetEventSlim _gate = new(false);

    protected override IEnumerable<Action> Bodies() => [Feed];

    private void Feed()
    {
        _gate.Reset();
        for (int i = 0; i < AtOnce; i++) ThreadPool.UnsafeQueueUserWorkItem(_ => _gate.Wait(), null);
        while (Running)
        {
            Thread.Sleep(100);
            for (int i = 0; i < Math.Max(1, itemsPerSecond / 10); i++) ThreadPool.UnsafeQueueUserWorkItem(_ => _gate.Wait(), null);
        }
    }

    public override void Stop()
    {
        base.Stop();
        _gate.Set();
    }
}

/// <summary>Four threads that hand one monitor around; each holds it so long that about the asked number of waits a second come out. A pause
/// outside the lock lets a waiter have it: monitors are not fair, and who just let go would win again.</summary>
internal sealed class Contend(int contentionsPerSecond) : Threads
{
    private readonly object _lock = new();

    protected override IEnumerable<Action> Bodies() => Enumerable.Repeat(Take, 4);

    private void Take()
    {
        int holdMs = Math.Max(1, 1000 / contentionsPerSecond);
        while (Running)
        {
            lock (_lock) Thread.Sleep(holdMs);
            Thread.Sleep(1);
        }
    }
}
