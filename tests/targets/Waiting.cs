// SPDX-License-Identifier: MIT
// Lock fights, waits on wait handles and blocked pool workers, in known numbers and of known length.
using System.Diagnostics;
using System.Runtime.CompilerServices;

namespace Lunette.Target;

/// <summary>One holder and one waiter, fight after fight: the holder lets go HoldMs after the waiter set out to wait. Even fights are
/// about one object, odd ones about another. As `holds` the holder can be seen while it holds: in even fights it throws and catches, in
/// odd ones it waits on a handle that nobody signals.</summary>
internal sealed class Fights(int n, bool seen = false) : Work
{
    private const int HoldMs = 20;
    private readonly ManualResetEvent _never = new(false);
    private readonly object _even = new(), _odd = new();
    private readonly Times _waits = new("wait");
    private volatile int _held, _waiting, _over, _waiterId;
    private Thread? _waiter;

    private object Gate(int fight) => fight % 2 == 0 ? _even : _odd;

    protected override string Do()
    {
        _held = _waiting = _over = -1;
        _waiter = new Thread(Wait) { IsBackground = true, Name = "waiter" };
        _waiter.Start();
        for (int i = 0; i < n; i++) HoldGate(i);
        return $"fights={n} even={(n + 1) / 2} odd={n / 2} holder={ThreadId()} waiter={_waiterId} {_waits}";
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private void HoldGate(int fight)
    {
        lock (Gate(fight))
        {
            _held = fight;
            Until(() => _waiting == fight);
            UntilBlocked(_waiter!);
            if (!seen || fight % 2 == 0) Thread.Sleep(HoldMs);
            if (seen && fight % 2 == 0) HoldAndThrow();
            if (seen && fight % 2 != 0) HoldAndWait();
        }
        Until(() => _over == fight);
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static void HoldAndThrow()
    {
        try
        {
            throw new InvalidOperationException("thrown while holding");
        }
        catch (InvalidOperationException)
        {
        }
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private void HoldAndWait()
    {
        if (_never.WaitOne(HoldMs)) throw new InvalidOperationException("nobody signals this");
    }

    private void Wait()
    {
        _waiterId = ThreadId();
        for (int i = 0; i < n; i++)
        {
            Until(() => _held == i);
            WaitForGate(i);
            _over = i;
        }
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private void WaitForGate(int fight)
    {
        var gate = Gate(fight);
        _waiting = fight;
        long since = Stopwatch.GetTimestamp();
        lock (gate) _waits.Add(since);
    }
}

/// <summary>One waiter thread a kind of handle, all made before `go`, which wait in turn: each wait is released HoldMs after it began.
/// Whoever hands over looks at fields, so that these are the only waits on wait handles.</summary>
internal sealed class Waits : Work
{
    private const int HoldMs = 20;
    private readonly int _n;
    private readonly Mutex _mutex = new();
    private readonly Semaphore _semaphore = new(0, 1);
    private readonly ManualResetEvent _event = new(false);
    private readonly Times[] _times = [new("mutex"), new("semaphore"), new("event")];
    private readonly int[] _ids = new int[3];
    private readonly Thread[] _waiters = new Thread[3];
    private volatile int _turn = -1, _waiting = -1, _over = -1;

    public Waits(int n)
    {
        _n = n;
        Action[] waits = [WaitOnMutex, WaitOnSemaphore, WaitOnEvent];
        for (int kind = 0; kind < waits.Length; kind++)
        {
            int mine = kind;
            _waiters[kind] = new Thread(() => Serve(mine, waits[mine])) { IsBackground = true, Name = waits[mine].Method.Name };
            _waiters[kind].Start();
        }
    }

    protected override string Do()
    {
        _waiting = _over = -1;
        for (int i = 0; i < 3 * _n; i++)
        {
            int turn = i;
            if (i < _n) _mutex.WaitOne(); // free: it is had at once
            _turn = turn;
            Until(() => _waiting == turn);
            UntilBlocked(_waiters[turn / _n]);
            Thread.Sleep(HoldMs);
            if (i < _n) _mutex.ReleaseMutex();
            else if (i < 2 * _n) _semaphore.Release();
            else _event.Set();
            Until(() => _over == turn);
            _event.Reset();
        }
        _turn = -1;
        return $"waits={3 * _n} mutex={_n} semaphore={_n} event={_n} mutex_thread={_ids[0]} semaphore_thread={_ids[1]} event_thread={_ids[2]} "
            + string.Join(' ', _times.AsEnumerable());
    }

    private void Serve(int kind, Action wait)
    {
        _ids[kind] = ThreadId();
        while (true)
        {
            int turn = _turn;
            if (turn < 0 || turn / _n != kind || turn == _over)
            {
                Thread.Sleep(1);
                continue;
            }
            long since = Stopwatch.GetTimestamp();
            _waiting = turn;
            wait();
            _times[kind].Add(since);
            if (kind == 0) _mutex.ReleaseMutex();
            _over = turn;
        }
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private void WaitOnMutex() => Had(_mutex.WaitOne());

    [MethodImpl(MethodImplOptions.NoInlining)]
    private void WaitOnSemaphore() => Had(_semaphore.WaitOne());

    [MethodImpl(MethodImplOptions.NoInlining)]
    private void WaitOnEvent() => Had(_event.WaitOne());

    /// <summary>Keeps the wait from being a tail call, which would take its method off the stack.</summary>
    [MethodImpl(MethodImplOptions.NoInlining)]
    private static void Had(bool signalled)
    {
        if (!signalled) throw new InvalidOperationException("a wait without a limit timed out");
    }
}

/// <summary>Work items that block their pool threads, all queued at once, so that the pool has to add threads.</summary>
internal sealed class BlockedPool(int n) : Work
{
    private const int BlockMs = 300;
    private int _over, _now, _most;

    protected override string Do()
    {
        _over = _now = _most = 0;
        int before = ThreadPool.ThreadCount;
        long since = Stopwatch.GetTimestamp();
        QueueBlockers();
        Until(() => Volatile.Read(ref _over) == n);
        ThreadPool.GetMinThreads(out int least, out _);
        return FormattableString.Invariant(
            $"items={n} block_ms={BlockMs} threads_before={before} threads_most={_most} min_threads={least} elapsed_ms={Stopwatch.GetElapsedTime(since).TotalMilliseconds:F0}");
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private void QueueBlockers()
    {
        for (int i = 0; i < n; i++) ThreadPool.QueueUserWorkItem(BlockPoolWorker);
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private void BlockPoolWorker(object? state)
    {
        int now = Interlocked.Increment(ref _now);
        for (int most = _most; now > most; most = _most) Interlocked.CompareExchange(ref _most, now, most);
        Thread.Sleep(BlockMs);
        Interlocked.Decrement(ref _now);
        Interlocked.Increment(ref _over);
    }
}
