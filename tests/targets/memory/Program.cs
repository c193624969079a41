// SPDX-License-Identifier: MIT
// The memory target's entry: builds one load, says READY, then obeys one-word commands on standard input. A load is one file.
namespace Lunette.Target;

internal static class Program
{
    /// <summary>What a load keeps: nothing of it is collected before the process ends.</summary>
    public static object? Kept;

    private static int Main(string[] args)
    {
        string mode = args.FirstOrDefault() ?? "";
        int n = args.Length > 1 && int.TryParse(args[1], out int given) ? given : 0;
        object? load = mode switch
        {
            "known" => new KnownHeap(n),
            "leak" => new KnownLeak(n),
            "odds" => new OddHeap(n),
            "big" => new BigHeap(n),
            "churn" => new Churn(n),
            "toil" => new Toil(n),
            "idle" => new object(),
            "deadlock" => new Deadlock(n),
            "locks" => new LockObjects(),
            "stall" => new Stall(n),
            "starve" => new Starve(n),
            "crowd" => new Crowd(n),
            _ => null,
        };
        if (load == null)
        {
            Console.Error.WriteLine("usage: lunette-memory MODE [NUMBER]\n" +
                "  idle     nothing\n" +
                "  known N  known counts of known types: N nodes, arrays of every sort, structs with references, strings (1000)\n" +
                "  leak N   a static cache that holds N customers by a dictionary, a list and an event (1000)\n" +
                "  odds N   handles of every kind, timers, finalizers, a collectible context that cannot unload, async work that never ends (10)\n" +
                "  big N    N million objects in lists, trees, arrays, strings and dictionaries: 30 is about 2 GB (1)\n" +
                "  churn N  N threads that allocate without end beside a live set of known size (2)\n" +
                "  toil N   work of every sort that checks itself, N times (1), beside a `known` of 1000; `check` tells how it goes\n" +
                "  deadlock N  two threads that wait for each other's lock, N behind them (0), one in Monitor.Wait, one with a quiet lock\n" +
                "  locks    two threads that wait for each other's System.Threading.Lock\n" +
                "  stall N  N threads that wait for a task that never ends, and one each on a channel, a semaphore and a delay (3)\n" +
                "  starve N a pool of at most N workers that all wait for work queued behind them (4)\n" +
                "  crowd N  N threads that sleep, 20 calls deep (100)\n" +
                "Prints READY PID MODE and what it holds as NAME=NUMBER. Commands: gc, ping, quit.");
            return 2;
        }
        Kept = load;
        Say($"READY {Environment.ProcessId} {mode} {load}");
        while (Console.In.ReadLine() is { } line)
        {
            switch (line.Trim())
            {
                case "gc": GC.Collect(); GC.WaitForPendingFinalizers(); GC.Collect(); Say("COLLECTED"); break;
                case "ping": Say("PONG"); break;
                case "check" when load is Toil toil: Say(toil.Check()); break;
                case "quit": Say("BYE"); Environment.Exit(0); break;
                default: Say("ERROR unknown command"); break;
            }
        }
        return 0;
    }

    private static void Say(string line)
    {
        Console.Out.WriteLine(line);
        Console.Out.Flush();
    }
}
