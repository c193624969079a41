// SPDX-License-Identifier: MIT
// lunette-kernel MODE N: a .NET program whose native library (known.c) does known amounts of what the kernel's samplers look at. Prints
// READY PID MODE 0; does it at each "go", in a thread of its own, and prints DONE with what was done; ends at "quit" or the end of its input.
using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;

namespace Lunette.Kernel;

internal static partial class Known
{
    private const string Library = "known";

    [LibraryImport(Library)] internal static partial void known_allocs(int n, [Out] long[] result);
    [LibraryImport(Library)] internal static partial void known_leaks(int n, [Out] long[] result);
    [LibraryImport(Library)] internal static partial void known_fights(int n, int holdMs, [Out] long[] result);
    [LibraryImport(Library)] internal static partial void known_locks(int n, [Out] long[] result);
    [LibraryImport(Library)] internal static partial void known_sleeps(int n, [Out] long[] result);
    [LibraryImport(Library)] internal static partial void known_futexes(int n, int waitMs, [Out] long[] result);
    [LibraryImport(Library)] internal static partial void known_pipe(int n, int gapMs, [Out] long[] result);
    [LibraryImport(Library)] internal static partial void known_polls(int n, int waitMs, [Out] long[] result);
    [LibraryImport(Library)] internal static partial void known_epolls(int n, int waitMs, [Out] long[] result);
    [LibraryImport(Library)] internal static partial void known_faults(int n, [Out] long[] result);
    [LibraryImport(Library)] internal static partial void known_pingpong(int n, [Out] long[] result);
}

internal static class Program
{
    [MethodImpl(MethodImplOptions.NoInlining)]
    private static string ManagedAllocs(int n)
    {
        var r = new long[4];
        Known.known_allocs(n, r);
        return $"malloc={r[0]} calloc={r[1]} realloc={r[2]} kept={r[3]}";
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static string ManagedLeaks(int n)
    {
        var r = new long[4];
        Known.known_leaks(n, r);
        return $"small={r[0]} grown={r[1]} aligned={r[2]} freed={r[3]}";
    }

    // The JIT keeps no frame pointer in a small method of one call that is optimized: whoever calls it is found by where it begins only.
    private const MethodImplOptions Optimized = MethodImplOptions.NoInlining | MethodImplOptions.AggressiveOptimization;
    private static readonly long[] s_frameless = new long[8];
    private static int s_calls;

    [MethodImpl(Optimized)]
    private static int FramelessBelow(int n)
    {
        Known.known_allocs(n, s_frameless);
        Known.known_futexes(n, 15, s_frameless);
        return s_calls++;
    }

    [MethodImpl(Optimized)]
    private static int FramelessMiddle(int n) => FramelessBelow(n) + 1;

    [MethodImpl(Optimized)]
    private static int FramelessAbove(int n)
    {
        var first = FramelessMiddle(n);
        return first + FramelessMiddle(n);
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static string ManagedFrameless(int n)
    {
        FramelessAbove(n);
        return $"runs={s_calls}";
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static string ManagedFights(int n)
    {
        var r = new long[3];
        Known.known_fights(n, 20, r);
        return $"waited_us={r[0] / 1000} waits={r[1]} locks={r[2]}";
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static string ManagedLocks(int n)
    {
        var r = new long[1];
        Known.known_locks(n, r);
        return $"locks={r[0]}";
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static string ManagedSleeps(int n)
    {
        var r = new long[3];
        Known.known_sleeps(n, r);
        return $"slept_us={r[0] / 1000} sleeps={r[1]} whole_us={r[2] / 1000}";
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static string ManagedFutexes(int n)
    {
        var r = new long[2];
        Known.known_futexes(n, 15, r);
        return $"waited_us={r[0] / 1000} waits={r[1]}";
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static string ManagedPipe(int n)
    {
        var r = new long[2];
        Known.known_pipe(n, 10, r);
        return $"waited_us={r[0] / 1000} reads={r[1]}";
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static string ManagedPolls(int n)
    {
        var r = new long[2];
        Known.known_polls(n, 12, r);
        return $"waited_us={r[0] / 1000} waits={r[1]}";
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static string ManagedEpolls(int n)
    {
        var r = new long[2];
        Known.known_epolls(n, 14, r);
        return $"waited_us={r[0] / 1000} waits={r[1]}";
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static string ManagedFaults(int n)
    {
        var r = new long[1];
        Known.known_faults(n, r);
        return $"pages={r[0]}";
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static string ManagedPingPong(int n)
    {
        var r = new long[2];
        Known.known_pingpong(n, r);
        return $"rounds={r[0]} took_us={r[1] / 1000}";
    }

    // All of the waits at once, each in a thread of its own.
    private static string Waits(int n)
    {
        Func<int, string>[] parts = [ManagedSleeps, ManagedFutexes, ManagedPipe, ManagedFights, ManagedPolls, ManagedEpolls];
        string[] names = ["sleeps", "futexes", "pipe", "fights", "polls", "epolls"];
        var said = new string[parts.Length];
        var threads = new Thread[parts.Length];
        for (var i = 0; i < parts.Length; i++)
        {
            var k = i;
            threads[i] = new Thread(() => said[k] = parts[k](n)) { Name = "k-" + names[i] };
            threads[i].Start();
        }

        foreach (var t in threads) t.Join();
        return string.Join(' ', said.SelectMany((s, i) => s.Split(' ').Select(pair => names[i] + "_" + pair)));
    }

    private static string InThread(string name, int n, Func<int, string> part)
    {
        var said = "";
        var thread = new Thread(() => said = part(n)) { Name = name };
        thread.Start();
        thread.Join();
        return said;
    }

    private static int Main(string[] args)
    {
        var mode = args.Length > 0 ? args[0] : "idle";
        var n = args.Length > 1 ? int.Parse(args[1]) : 10;
        Func<int, string> load = mode switch
        {
            "allocs" => k => InThread("k-allocs", k, ManagedAllocs),
            "leaks" => k => InThread("k-leaks", k, ManagedLeaks),
            "frameless" => k => InThread("k-frameless", k, ManagedFrameless),
            "locks" => k => InThread("k-locks", k, ManagedLocks),
            "faults" => k => InThread("k-faults", k, ManagedFaults),
            "pingpong" => k => InThread("k-pingpong", k, ManagedPingPong),
            "waits" => Waits,
            "idle" => _ => "nothing=0",
            _ => throw new ArgumentException(mode),
        };
        load(1); // everything is jitted, bound and mapped
        Console.Out.WriteLine($"READY {Environment.ProcessId} {mode} 0");
        Console.Out.Flush();
        while (Console.In.ReadLine() is { } line)
        {
            if (line == "quit") break;
            if (line == "ping") Console.Out.WriteLine("PONG");
            if (line == "go") Console.Out.WriteLine("DONE " + load(n));
            Console.Out.Flush();
        }

        return 0;
    }
}
