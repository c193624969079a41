// SPDX-License-Identifier: MIT
// Threads that stand in known places: a deadlock of two locks, waits on work that never ends, a pool whose workers all wait, many idle threads.
using System.Runtime.CompilerServices;
using System.Threading.Channels;

namespace Lunette.Target;

internal sealed class FirstLock { }

internal sealed class SecondLock { }

internal sealed class QuietLock { }

/// <summary>Two threads that hold one lock each and wait for the other's, N threads behind the first lock, one in Monitor.Wait, one that
/// holds a lock that nobody wants.</summary>
internal sealed class Deadlock
{
    private readonly FirstLock first = new();
    private readonly SecondLock second = new();
    private readonly QuietLock quiet = new();
    private readonly Barrier both = new(2);
    private readonly List<Thread> threads = [];
    private readonly int behind;

    public Deadlock(int given)
    {
        behind = given;
        Standing.Start(threads, "first-then-second", () => TakeFirst());
        Standing.Start(threads, "second-then-first", () => TakeSecond());
        Standing.Await(threads);
        for (int i = 0; i < behind; i++) Standing.Start(threads, "behind", () => StandBehind());
        Standing.Start(threads, "waiter", () => WaitForPulse());
        Standing.Start(threads, "quiet", () => HoldQuietly());
        Standing.Await(threads);
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private void TakeFirst()
    {
        lock (first)
        {
            both.SignalAndWait();
            lock (second) GC.KeepAlive(this);
        }
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private void TakeSecond()
    {
        lock (second)
        {
            both.SignalAndWait();
            lock (first) GC.KeepAlive(this);
        }
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private void StandBehind()
    {
        lock (first) GC.KeepAlive(this);
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private void WaitForPulse()
    {
        var mine = new object();
        lock (mine) Monitor.Wait(mine);
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private void HoldQuietly()
    {
        lock (quiet)
        lock (quiet) Thread.Sleep(Timeout.Infinite);
    }

    public override string ToString() => $"first={threads[0].ManagedThreadId} second={threads[1].ManagedThreadId} behind={behind} "
        + $"waiter={threads[^2].ManagedThreadId} quiet={threads[^1].ManagedThreadId}";
}

/// <summary>As Deadlock, with System.Threading.Lock objects where the runtime has them (9 and later), else with monitors.</summary>
internal sealed class LockObjects
{
#if NET9_0_OR_GREATER
    private readonly Lock first = new(), second = new();
#else
    private readonly object first = new(), second = new();
#endif
    private readonly Barrier both = new(2);
    private readonly List<Thread> threads = [];

    public LockObjects()
    {
        Standing.Start(threads, "first-then-second", () => TakeFirst());
        Standing.Start(threads, "second-then-first", () => TakeSecond());
        Standing.Await(threads);
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private void TakeFirst()
    {
        Enter(first);
        both.SignalAndWait();
        Enter(second);
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private void TakeSecond()
    {
        Enter(second);
        both.SignalAndWait();
        Enter(first);
    }

#if NET9_0_OR_GREATER
    private static void Enter(Lock it) => it.Enter();
#else
    private static void Enter(object it) => Monitor.Enter(it);
#endif

    public override string ToString() => $"first={threads[0].ManagedThreadId} second={threads[1].ManagedThreadId}";
}

/// <summary>N threads that wait for tasks that never end, and one each on a channel, a semaphore, a delay and a completion source.</summary>
internal sealed class Stall
{
    private readonly List<Thread> threads = [];
    private readonly int n;
    private readonly TaskCompletionSource<int> never = new();
    private readonly Channel<int> channel = Channel.CreateUnbounded<int>();
    private readonly SemaphoreSlim closed = new(0);

    public Stall(int given)
    {
        n = given > 0 ? given : 3;
        for (int i = 0; i < n; i++) Standing.Start(threads, "result", () => BlockOnResult());
        Standing.Start(threads, "channel", () => BlockOnChannel());
        Standing.Start(threads, "semaphore", () => BlockOnSemaphore());
        Standing.Start(threads, "delay", () => BlockOnDelay());
        Standing.Await(threads);
    }

    private async Task<int> Inner()
    {
        await Task.Yield();
        return await never.Task;
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private void BlockOnResult() => GC.KeepAlive(Inner().Result);

    [MethodImpl(MethodImplOptions.NoInlining)]
    private void BlockOnChannel() => GC.KeepAlive(channel.Reader.ReadAsync().AsTask().GetAwaiter().GetResult());

    [MethodImpl(MethodImplOptions.NoInlining)]
    private void BlockOnSemaphore() => closed.Wait();

    [MethodImpl(MethodImplOptions.NoInlining)]
    private void BlockOnDelay() => Task.Delay(Timeout.Infinite).Wait();

    public override string ToString() => $"results={n} blocked={threads.Count} first={threads[0].ManagedThreadId} channel={threads[n].ManagedThreadId}";
}

/// <summary>A pool of at most N workers, all of which wait for work that is queued behind them.</summary>
internal sealed class Starve
{
    private readonly int workers;
    private readonly CountdownEvent standing;
    private const int Queued = 40;

    public Starve(int given)
    {
        workers = Math.Max(given > 0 ? given : 4, Environment.ProcessorCount);
        standing = new CountdownEvent(workers);
        ThreadPool.SetMinThreads(workers, 1);
        if (!ThreadPool.SetMaxThreads(workers, workers)) throw new InvalidOperationException("the pool's maximum cannot be set");
        for (int i = 0; i < workers; i++) ThreadPool.UnsafeQueueUserWorkItem(_ => BlockWorker(), null);
        standing.Wait();
        for (int i = 0; i < Queued; i++) ThreadPool.UnsafeQueueUserWorkItem(_ => { }, null);
        Thread.Sleep(200); // the workers go from the countdown into their waits
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private void BlockWorker()
    {
        Task<int> behind = Task.Run(async () => { await Task.Yield(); return 1; }); // not one that a waiter may run itself
        standing.Signal();
        GC.KeepAlive(behind.Result);
    }

    public override string ToString() => $"workers={workers} queued={Queued}";
}

/// <summary>N threads that sleep, some calls deep.</summary>
internal sealed class Crowd
{
    private readonly List<Thread> threads = [];

    public Crowd(int given)
    {
        for (int i = 0; i < (given > 0 ? given : 100); i++) Standing.Start(threads, "crowd", () => Down(20), 256 << 10);
        Standing.Await(threads);
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static int Down(int depth)
    {
        if (depth == 0) Thread.Sleep(Timeout.Infinite);
        return depth == 0 ? 0 : Down(depth - 1) + 1;
    }

    public override string ToString() => $"threads={threads.Count}";
}

internal static class Standing
{
    public static void Start(List<Thread> threads, string name, Action what, int stack = 0)
    {
        var t = new Thread(() => what(), stack) { IsBackground = true, Name = name };
        threads.Add(t);
        t.Start();
    }

    /// <summary>Until each of them waits. The state is also set for a wait that is over soon, so it is looked at more than once.</summary>
    public static void Await(List<Thread> threads)
    {
        for (int seen = 0; seen < 3;)
        {
            Thread.Sleep(20);
            seen = threads.TrueForAll(t => (t.ThreadState & ThreadState.WaitSleepJoin) != 0) ? seen + 1 : 0;
        }
    }
}
