// SPDX-License-Identifier: MIT
// The test target's entry: picks a mode, says READY, then obeys one-word commands on standard input, so that a test waits for events and not for time.
namespace Lunette.Target;

/// <summary>A load that can be switched on and off while the process lives.</summary>
internal interface ILoad
{
    void Start();
    void Stop();
    /// <summary>GOING (or READY, with --now) was said.</summary>
    void Started() { }
    /// <summary>A command of the mode itself; the answer is one line.</summary>
    string Command(string[] words) => "ERROR unknown command";
}

internal static class Program
{
    private const string Usage =
        "usage: lunette-target MODE [NUMBER] [--now] [--detached]\n" +
        "  idle            nothing\n" +
        "  burn THREADS    that many threads of pure CPU (1)\n" +
        "  cpu             one thread that works in turns in methods of every kind; 'shares' tells for how long in each\n" +
        "  walk THREADS    that many threads that sleep at the ends of 2,000 different stacks (50)\n" +
        "  leak MB         so many megabytes a second, kept (10)\n" +
        "  starve RATE     so many blocking pool work items a second, on top of 400 at once (40)\n" +
        "  contend RATE    about so many monitor contentions a second (200)\n" +
        "  counters        EventSource Lunette-Test and Meter Lunette.Test with known values\n" +
        "  series N        a Counter with N tag sets (200)\n" +
        "  web CLIENTS     an ASP.NET Core server whose /slow blocks a pool thread, and that many clients of it (60)\n" +
        "  serve N         an ASP.NET Core service with TLS and its clients: N TLS connections, 3N quick requests, slow, failing, hanging ones (10)\n" +
        "These do a known amount after go, then print DONE with what they did as NAME=NUMBER pairs:\n" +
        "  throw N         N InvalidOperationException, 2N ArgumentException, 3N Lunette.Target.OrderException, all caught (10)\n" +
        "  crash N         N caught exceptions, DONE, then an unhandled one (3)\n" +
        "  fights N        N lock fights of 20 ms over two objects in turns (40)\n" +
        "  holds N         as fights, but the holder throws and catches, and waits on a handle, while it holds (40)\n" +
        "  waits N         N waits of 20 ms each on a Mutex, a Semaphore and a ManualResetEvent (20)\n" +
        "  stand N         one thread at each primitive that a thread can wait at, without sockets and pipes for 0, and one that burns, until the end\n" +
        "  pool N          N pool work items that block for 300 ms each (40)\n" +
        "  jit N           N dynamic methods, N/10 instantiations of a generic method, a hot method and a hot loop (100)\n" +
        "  gcs N           N induced collections of each generation, then N natural ones (5)\n" +
        "  bgc N           N background collections (5)\n" +
        "  datas N         N threads that allocate until stop (8); for Server GC\n" +
        "  sites N         N megabytes: 50 % strings, 25 % orders, 15 % int[], 10 % byte[] of 200,000, mixed, each from its own method (100)\n" +
        "  alloc N         N objects of 40 bytes, N arrays of 1,000 bytes, N/10 of 200,000 bytes (1000)\n" +
        "  shop N          EventSource Contoso-Shop: N orders wait, ten orders a second of 10, 20 and 200 ms (80)\n" +
        "  source N        EventSource Lunette-Demo: N Ping, N OrderStart and OrderStop, N/2 Bad (100)\n" +
        "  flood N         EventSource Lunette-Flood: N thousand WorkStart and WorkStop a second until stop; 0 is as fast as it can (200)\n" +
        "  http N          HttpClient: N plain requests, and some of every other fate (10)\n" +
        "  spans N         N orders of 5 nested spans each, 2N spans of another source, 5 odd ones (10)\n" +
        "  http-spans N    N requests of HttpClient to itself, 5 spans of requests made by hand (4)\n" +
        "  logs N          15N + 8 log messages of 5 categories and all levels, in scopes (10)\n" +
        "  di              a service container with 10 singletons, 20 scoped, 30 transient services\n" +
        "Prints READY PID MODE PORT. Commands: go, stop, ping, quit. --now starts the load at once; --detached outlives its standard input.";

    private static int Main(string[] args)
    {
        var words = args.Where(a => !a.StartsWith("--")).ToArray();
        bool now = args.Contains("--now"), detached = args.Contains("--detached");
        if (words.Length == 0)
        {
            Console.Error.WriteLine(Usage);
            return 2;
        }
        ILoad? load = Make(words[0], words.Length > 1 ? int.Parse(words[1]) : null);
        if (load == null)
        {
            Console.Error.WriteLine(Usage);
            return 2;
        }
        int port = (load as IListens)?.Port ?? 0;
        if (now) load.Start();
        Say($"READY {Environment.ProcessId} {words[0]} {port}");
        if (now) load.Started();
        Obey(load);
        if (detached) Thread.Sleep(Timeout.Infinite);
        return 0;
    }

    private static ILoad? Make(string mode, int? number) => mode switch
    {
        "idle" => new Idle(),
        "burn" => new Burn(number ?? 1),
        "cpu" => new Hot(),
        "walk" => new Walk(number ?? 50),
        "leak" => new Leak(number ?? 10),
        "starve" => new Starve(number ?? 40),
        "contend" => new Contend(number ?? 200),
        "counters" => new KnownCounters(),
        "series" => new ManySeries(number ?? 200),
#if LUNETTE_WEB
        "web" => new Web(number ?? 60),
        "serve" => new Served(number ?? 10),
        "logs" => new Logging(number ?? 10),
#endif
        "throw" => new Throwing(number ?? 10),
        "crash" => new Crashing(number ?? 3),
        "fights" => new Fights(number ?? 40),
        "holds" => new Fights(number ?? 40, seen: true),
        "waits" => new Waits(number ?? 20),
        "stand" => new Standing(number != 0),
        "pool" => new BlockedPool(number ?? 40),
        "gcs" => new Collections(number ?? 5),
        "bgc" => new BackgroundCollections(number ?? 5),
        "datas" => new Datas(number ?? 8),
        "sites" => new Sites(number ?? 100),
        "alloc" => new Allocations(number ?? 1000),
        "shop" => new Shop(number ?? 80),
        "source" => new Demo(number ?? 100),
        "flood" => new Flood(number ?? 200),
        "spans" => new Spans(number ?? 10),
        "http-spans" => new HttpSpans(number ?? 4),
        "http" => new Outbound(number ?? 10),
#if !LUNETTE_AOT
        "jit" => new Compiling(number ?? 100),
        "di" => new Services(),
#endif
        _ => null,
    };

    private static void Obey(ILoad load)
    {
        while (Console.In.ReadLine() is { } line)
        {
            var words = line.Split(' ', StringSplitOptions.RemoveEmptyEntries);
            if (words.Length == 0) continue;
            switch (words[0])
            {
                case "go": load.Start(); Say("GOING"); load.Started(); break;
                case "stop": load.Stop(); Say("STOPPED"); break;
                case "ping": Say("PONG"); break;
                case "quit": Say("BYE"); Environment.Exit(0); break;
                default: Say(load.Command(words)); break;
            }
        }
    }

    public static void Say(string line)
    {
        Console.Out.WriteLine(line);
        Console.Out.Flush();
    }
}

/// <summary>A load with a TCP port that READY names.</summary>
internal interface IListens
{
    int Port { get; }
}
