// SPDX-License-Identifier: MIT
// One thread at each primitive that a thread can wait at, for as long as the process lives: what stack samples show of them.
using System.Net;
using System.Net.Sockets;
using System.Runtime.CompilerServices;

namespace Lunette.Target;

/// <summary>Threads named after the method that they stand in. `go` starts them and says STANDING once each is there.</summary>
internal sealed class Standing(bool sockets) : ILoad
{
    private static readonly object Pulsed = new(), Held = new();
    private static readonly Mutex HeldMutex = new();
    private static readonly ReaderWriterLockSlim HeldLock = new();
    private readonly List<Thread> _threads = [];

    public void Start()
    {
        Monitor.Enter(Held);
        HeldMutex.WaitOne();
        HeldLock.EnterWriteLock();
        ThreadStart[] plain = [
            MonitorWait, MonitorEnter, Sleep, Join, Event, EventSlim, Slim, AnyHandle, MutexWait, LockSlim, TaskWait, TaskResult, Burn];
        ThreadStart[] kernel = [Accept, Poll, Receive, ReadPipe];
        foreach (ThreadStart at in sockets ? [.. plain, .. kernel] : plain)
        {
            var thread = new Thread(at) { IsBackground = true, Name = at.Method.Name };
            thread.Start();
            _threads.Add(thread);
        }
        ThreadPool.QueueUserWorkItem(_ => { }); // a worker that then waits for more
    }

    public void Started()
    {
        foreach (var thread in _threads.Where(t => t.Name != nameof(Burn)))
        {
            bool inTheKernel = thread.Name is nameof(Accept) or nameof(Poll) or nameof(Receive) or nameof(ReadPipe); // the runtime cannot tell
            SpinWait.SpinUntil(() => (thread.ThreadState & ThreadState.WaitSleepJoin) != 0, inTheKernel ? 100 : Timeout.Infinite);
        }
        Program.Say("STANDING");
    }

    public void Stop() { }

    [MethodImpl(MethodImplOptions.NoInlining)] private static void MonitorWait() { lock (Pulsed) Monitor.Wait(Pulsed); }
    [MethodImpl(MethodImplOptions.NoInlining)] private static void MonitorEnter() { lock (Held) GC.KeepAlive(Held); }
    [MethodImpl(MethodImplOptions.NoInlining)] private static void Sleep() => Thread.Sleep(Timeout.Infinite);
    [MethodImpl(MethodImplOptions.NoInlining)] private static void Event() => new ManualResetEvent(false).WaitOne();
    [MethodImpl(MethodImplOptions.NoInlining)] private static void EventSlim() => new ManualResetEventSlim().Wait();
    [MethodImpl(MethodImplOptions.NoInlining)] private static void Slim() => new SemaphoreSlim(0).Wait();
    [MethodImpl(MethodImplOptions.NoInlining)] private static void MutexWait() => HeldMutex.WaitOne();
    [MethodImpl(MethodImplOptions.NoInlining)] private static void LockSlim() => HeldLock.EnterReadLock();
    [MethodImpl(MethodImplOptions.NoInlining)] private static void TaskWait() => new TaskCompletionSource().Task.Wait();
    [MethodImpl(MethodImplOptions.NoInlining)] private static void TaskResult() => _ = new TaskCompletionSource<int>().Task.Result;

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static void AnyHandle() => WaitHandle.WaitAny([new AutoResetEvent(false), new AutoResetEvent(false)]);

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static void Join()
    {
        var asleep = new Thread(Sleep) { IsBackground = true };
        asleep.Start();
        asleep.Join();
    }

    private static Socket Listener()
    {
        var socket = new Socket(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp);
        socket.Bind(new IPEndPoint(IPAddress.Loopback, 0));
        socket.Listen();
        return socket;
    }

    [MethodImpl(MethodImplOptions.NoInlining)] private static void Accept() => Listener().Accept();
    [MethodImpl(MethodImplOptions.NoInlining)] private static void Poll() => Listener().Poll(-1, SelectMode.SelectRead);

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static void Receive()
    {
        using var listener = Listener();
        var client = new Socket(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp);
        client.Connect(listener.LocalEndPoint!);
        client.Receive(new byte[1]);
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static void ReadPipe()
    {
        using var pipe = new System.IO.Pipes.AnonymousPipeServerStream(System.IO.Pipes.PipeDirection.In);
        _ = pipe.ReadByte();
    }

    /// <summary>The one thread that works.</summary>
    [MethodImpl(MethodImplOptions.NoInlining)]
    private static void Burn()
    {
        for (uint x = 1; ; x = x * 1664525 + 1013904223) GC.KeepAlive(x == 0 ? Held : null);
    }
}
