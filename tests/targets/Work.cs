// SPDX-License-Identifier: MIT
// A known amount of a known thing, done once for each `go` and told in one line: DONE, then what was done as NAME=NUMBER pairs.
using System.Diagnostics;
using System.Runtime.InteropServices;

namespace Lunette.Target;

/// <summary>Work that ends by itself, on a thread of its own, so that the thread pool stays out of it.</summary>
internal abstract class Work : ILoad
{
    private Thread? _thread;
    private volatile bool _busy;

    /// <summary>False once `stop` was said: work without an end of its own looks at it.</summary>
    protected volatile bool Running;

    /// <summary>Does it all; what it gives follows the word DONE.</summary>
    protected abstract string Do();

    public void Start() => Running = true;

    /// <summary>Begins after GOING was said, so that DONE never comes before it.</summary>
    public void Started()
    {
        if (_busy) return;
        _busy = true;
        _thread = new Thread(Body) { IsBackground = true, Name = GetType().Name };
        _thread.Start();
    }

    private void Body()
    {
        string done = Do();
        _busy = false;
        Program.Say("DONE " + done);
    }

    public virtual void Stop()
    {
        Running = false;
        _thread?.Join();
    }

    /// <summary>Waits by looking, which no event of the runtime tells of: neither a lock nor a wait handle is touched.</summary>
    protected static void Until(Func<bool> holds)
    {
        while (!holds()) Thread.Sleep(1);
    }

    /// <summary>Waits until another thread is really blocked, however long the machine keeps it from getting there. A runtime that never says
    /// so must not hang us.</summary>
    protected static void UntilBlocked(Thread thread)
    {
        long since = Stopwatch.GetTimestamp();
        Until(() => (thread.ThreadState & System.Threading.ThreadState.WaitSleepJoin) != 0 || Stopwatch.GetElapsedTime(since).TotalSeconds > 5);
    }

    /// <summary>The kernel's id of this thread, as events and stacks have it.</summary>
    [DllImport("libc.so.6", EntryPoint = "gettid")]
    protected static extern int ThreadId();
}

/// <summary>Elapsed times, told as NAME_n, NAME_total_ms, NAME_min_ms and NAME_max_ms.</summary>
internal sealed class Times(string name)
{
    private double _total, _min = double.MaxValue, _max;
    private int _n;

    public void Add(long since)
    {
        double ms = Stopwatch.GetElapsedTime(since).TotalMilliseconds;
        _total += ms;
        _min = Math.Min(_min, ms);
        _max = Math.Max(_max, ms);
        _n++;
    }

    public override string ToString() =>
        FormattableString.Invariant($"{name}_n={_n} {name}_total_ms={_total:F3} {name}_min_ms={(_n > 0 ? _min : 0):F3} {name}_max_ms={_max:F3}");
}
