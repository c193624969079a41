// SPDX-License-Identifier: MIT
// Work that checks itself, of every sort that a stop, a fork or a borrowed system call could disturb: what is wrong is counted and named.
using System.Diagnostics;
using System.Net;
using System.Net.Sockets;
using System.Runtime.InteropServices;

namespace Lunette.Target;

internal sealed class Toil
{
    private const int UserSignal = 10; // SIGUSR1
    private readonly KnownHeap known = new(1000);
    private readonly Dictionary<string, long> counts = [];
    private readonly Dictionary<string, long> before = [];
    private readonly List<string> wrong = [];
    private long signalsSent, signalsSeen;
    private PosixSignalRegistration? registration;

    [DllImport("libc", EntryPoint = "getpid")] private static extern int GetPid();
    [DllImport("libc", EntryPoint = "kill")] private static extern int Kill(int pid, int signal);
    [DllImport("libc", EntryPoint = "pipe", SetLastError = true)] private static extern unsafe int Pipe(int* ends);
    [DllImport("libc", EntryPoint = "read", SetLastError = true)] private static extern unsafe nint Read(int fd, byte* to, nint n);
    [DllImport("libc", EntryPoint = "write", SetLastError = true)] private static extern unsafe nint Write(int fd, byte* from, nint n);

    public Toil(int given)
    {
        int n = given > 0 ? given : 1;
        for (int i = 0; i < n; i++)
        {
            Start("allocate", Allocate);
            Start("echo", Echo);
            Start("pipe", PipeLine);
            Start("calculate", Calculate);
        }
        Start("sleep", Sleep);
        Start("wait", TimedWait);
        Start("monitor", Handshake);
        Start("file", Files);
        Start("process", Children);
        Start("signal", Signals);
        Start("async", step => AsyncWork(step).GetAwaiter().GetResult());
        Timer();
    }

    /// <summary>WORK with the counts, what stood still since the last time, and what was wrong.</summary>
    public string Check()
    {
        lock (counts)
        {
            var still = counts.Where(c => before.GetValueOrDefault(c.Key, -1) == c.Value).Select(c => c.Key).ToList();
            foreach (var c in counts) before[c.Key] = c.Value;
            lock (wrong)
            {
                string parts = string.Join(" ", counts.Select(c => c.Key + "=" + c.Value));
                string first = wrong.Count > 0 ? wrong[0].Replace('\n', ' ') : "";
                return $"WORK wrong={wrong.Count} still={string.Join(",", still)} {parts} first={first}";
            }
        }
    }

    private void Wrong(string what)
    {
        lock (wrong) wrong.Add(what);
    }

    private void Count(string name)
    {
        lock (counts) counts[name] = counts.GetValueOrDefault(name) + 1;
    }

    private void Start(string name, Action<Action> body)
    {
        lock (counts) counts[name] = 0;
        new Thread(() =>
        {
            try { body(() => Count(name)); }
            catch (Exception e) { Wrong(name + ": " + e); }
        }) { IsBackground = true, Name = name }.Start();
    }

    // Objects whose content is known, through collections of every generation.
    private void Allocate(Action step)
    {
        var ring = new long[2000][];
        for (long i = 0; ; i++)
        {
            long[]? old = ring[i % ring.Length];
            if (old != null && (old[0] != i - ring.Length || old[^1] != old[0] * 3)) Wrong($"allocate: {old[0]} at {i}");
            var made = new long[2 + i % 40];
            made[^1] = i * 3;
            made[0] = i;
            ring[i % ring.Length] = made;
            if (i % 20_000 == 0) step();
            if (i % 400_000 == 0) GC.Collect(2, GCCollectionMode.Forced, true, i % 800_000 == 0);
        }
    }

    // Integers and vectors that live in registers the whole time.
    private void Calculate(Action step)
    {
        while (true)
        {
            ulong a = 1;
            double sum = 0;
            var v = new System.Numerics.Vector4(1, 2, 3, 4);
            var total = System.Numerics.Vector4.Zero;
            for (int i = 1; i <= 2_000_000; i++)
            {
                a = a * 6364136223846793005UL + 1442695040888963407UL;
                sum += i * 0.5;
                total += v;
                if (i % 1000 == 0) Thread.Yield();
            }
            if (sum != 2_000_000.0 * 2_000_001 / 4) Wrong($"calculate: {sum}");
            if (total.X != 2_000_000 || total.Y != 4_000_000) Wrong($"calculate: {total}");
            if (a != Expected) Wrong($"calculate: {a}");
            step();
        }
    }

    private static readonly ulong Expected = Series();

    private static ulong Series()
    {
        ulong a = 1;
        for (int i = 0; i < 2_000_000; i++) a = a * 6364136223846793005UL + 1442695040888963407UL;
        return a;
    }

    private void Echo(Action step)
    {
        using var listener = new Socket(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp);
        listener.Bind(new IPEndPoint(IPAddress.Loopback, 0));
        listener.Listen(4);
        var bytes = new byte[4096];
        for (int round = 0; ; round++)
        {
            using var client = new Socket(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp);
            client.Connect(listener.LocalEndPoint!);
            using Socket server = listener.Accept();
            for (int i = 0; i < 50; i++)
            {
                for (int k = 0; k < bytes.Length; k++) bytes[k] = (byte)(round + i + k);
                if (client.Send(bytes) != bytes.Length) Wrong("echo: a short send");
                var got = new byte[bytes.Length];
                for (int n = 0; n < got.Length;)
                {
                    int some = server.Receive(got, n, got.Length - n, SocketFlags.None);
                    if (some <= 0) { Wrong("echo: an early end"); break; }
                    n += some;
                }
                if (!got.AsSpan().SequenceEqual(bytes)) Wrong("echo: other bytes");
            }
            client.Close(); // its end must be seen at once, whatever image of this process lives
            server.ReceiveTimeout = 5000;
            if (server.Receive(bytes) != 0) Wrong("echo: no end");
            step();
        }
    }

    // Blocking system calls without a runtime in between: a result that is not the call's own would show.
    private unsafe void PipeLine(Action step)
    {
        int* ends = stackalloc int[2];
        if (Pipe(ends) != 0) { Wrong("pipe"); return; }
        int reader = ends[0], writer = ends[1];
        new Thread(() =>
        {
            for (long i = 0; ; i++)
            {
                nint put = Write(writer, (byte*)&i, 8);
                if (put != 8) Wrong($"pipe: write gave {put}, errno {Marshal.GetLastPInvokeError()}");
                if (i % 64 == 0) Thread.Sleep(1); // so that the reader sits in its call
            }
        }) { IsBackground = true, Name = "pipe writer" }.Start();
        for (long i = 0; ; i++)
        {
            long got = -1;
            nint n = Read(reader, (byte*)&got, 8);
            if (n != 8 || got != i) { Wrong($"pipe: read gave {n} and {got} for {i}, errno {Marshal.GetLastPInvokeError()}"); i = got; }
            if (GetPid() != Environment.ProcessId) Wrong("pipe: getpid");
            if (i % 256 == 0) step();
        }
    }

    private void Sleep(Action step)
    {
        while (true)
        {
            long t0 = Stopwatch.GetTimestamp();
            Thread.Sleep(20);
            if (Stopwatch.GetElapsedTime(t0).TotalMilliseconds < 19.5) Wrong("sleep: too short");
            step();
        }
    }

    private void TimedWait(Action step)
    {
        using var never = new ManualResetEventSlim();
        using var semaphore = new Semaphore(0, 1);
        while (true)
        {
            long t0 = Stopwatch.GetTimestamp();
            if (never.Wait(15) || semaphore.WaitOne(15)) Wrong("wait: set by nobody");
            double ms = Stopwatch.GetElapsedTime(t0).TotalMilliseconds; // the runtime counts in ticks of some ms
            if (ms < 20) Wrong($"wait: {ms} ms of 30");
            step();
        }
    }

    private void Handshake(Action step)
    {
        var at = new object();
        int turn = 0;
        new Thread(() =>
        {
            while (true)
                lock (at)
                {
                    while (turn % 2 == 0) Monitor.Wait(at);
                    turn++;
                    Monitor.Pulse(at);
                }
        }) { IsBackground = true, Name = "monitor other" }.Start();
        for (int i = 0; ; i++)
        {
            lock (at)
            {
                if (turn != 2 * i) Wrong($"monitor: turn {turn} of {i}");
                turn++;
                Monitor.Pulse(at);
                while (turn % 2 == 1) Monitor.Wait(at);
            }
            if (i % 100 == 0) step();
        }
    }

    private void Files(Action step)
    {
        string path = Path.Combine(Path.GetTempPath(), $"toil-{Environment.ProcessId}");
        for (int i = 0; ; i++)
        {
            File.WriteAllText(path, "line " + i);
            if (File.ReadAllText(path) != "line " + i) Wrong("file: other text");
            File.Delete(path);
            if (i % 20 == 0) step();
        }
    }

    private void Children(Action step)
    {
        while (true)
        {
            using Process p = Process.Start(new ProcessStartInfo("/bin/echo", "child") { RedirectStandardOutput = true })!;
            string text = p.StandardOutput.ReadToEnd();
            if (!p.WaitForExit(20000)) Wrong("process: no end seen");
            else if (text != "child\n" || p.ExitCode != 0) Wrong($"process: '{text}' and {p.ExitCode}");
            step();
            Thread.Sleep(100);
        }
    }

    private void Signals(Action step)
    {
        registration = PosixSignalRegistration.Create((PosixSignal)UserSignal, c => { c.Cancel = true; Interlocked.Increment(ref signalsSeen); });
        while (true)
        {
            signalsSent++;
            if (Kill(Environment.ProcessId, UserSignal) != 0) Wrong("signal: kill");
            if (!SpinWait.SpinUntil(() => Interlocked.Read(ref signalsSeen) >= signalsSent, 20000)) { Wrong("signal: lost"); signalsSeen = signalsSent; }
            if (Interlocked.Read(ref signalsSeen) > signalsSent) { Wrong("signal: twice"); signalsSeen = signalsSent; }
            step();
            Thread.Sleep(3);
        }
    }

    private async Task AsyncWork(Action step)
    {
        var listener = new TcpListener(IPAddress.Loopback, 0);
        listener.Start();
        using var client = new TcpClient();
        Task<TcpClient> accepted = listener.AcceptTcpClientAsync();
        await client.ConnectAsync((IPEndPoint)listener.LocalEndpoint);
        using TcpClient server = await accepted;
        var bytes = new byte[64];
        for (int i = 0; ; i++)
        {
            await client.GetStream().WriteAsync(BitConverter.GetBytes(i));
            await server.GetStream().ReadExactlyAsync(bytes.AsMemory(0, 4));
            if (BitConverter.ToInt32(bytes) != i) Wrong("async: other number");
            if (i % 20 == 0) { await Task.Delay(5); step(); }
        }
    }

    private void Timer()
    {
        lock (counts) counts["timer"] = 0;
        timer = new Timer(_ => Count("timer"), null, 10, 10);
    }

    private Timer? timer;

    public override string ToString() => known.ToString()!;
}
