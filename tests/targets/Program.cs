// SPDX-License-Identifier: MIT
// The test target's entry: picks a mode, says READY, then obeys one-word commands on standard input, so that a test waits for events and not for time.
namespace Lunette.Target;

/// <summary>A load that can be switched on and off while the process lives.</summary>
internal interface ILoad
{
    void Start();
    void Stop();
    /// <summary>A command of the mode itself; the answer is one line.</summary>
    string Command(string[] words) => "ERROR unknown command";
}

internal static class Program
{
    private const string Usage =
        "usage: lunette-target MODE [NUMBER] [--now] [--detached]\n" +
        "  idle            nothing\n" +
        "  burn THREADS    that many threads of pure CPU (1)\n" +
        "  leak MB         so many megabytes a second, kept (10)\n" +
        "  starve RATE     so many blocking pool work items a second, on top of 400 at once (40)\n" +
        "  contend RATE    about so many monitor contentions a second (200)\n" +
        "  counters        EventSource Lunette-Test and Meter Lunette.Test with known values\n" +
        "  series N        a Counter with N tag sets (200)\n" +
        "  web CLIENTS     an ASP.NET Core server whose /slow blocks a pool thread, and that many clients of it (60)\n" +
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
        int number = words.Length > 1 ? int.Parse(words[1]) : 0;
        ILoad? load = Make(words[0], number);
        if (load == null)
        {
            Console.Error.WriteLine(Usage);
            return 2;
        }
        int port = (load as IListens)?.Port ?? 0;
        if (now) load.Start();
        Say($"READY {Environment.ProcessId} {words[0]} {port}");
        Obey(load);
        if (detached) Thread.Sleep(Timeout.Infinite);
        return 0;
    }

    private static ILoad? Make(string mode, int number) => mode switch
    {
        "idle" => new Idle(),
        "burn" => new Burn(number > 0 ? number : 1),
        "leak" => new Leak(number > 0 ? number : 10),
        "starve" => new Starve(number > 0 ? number : 40),
        "contend" => new Contend(number > 0 ? number : 200),
        "counters" => new KnownCounters(),
        "series" => new ManySeries(number > 0 ? number : 200),
#if LUNETTE_WEB
        "web" => new Web(number > 0 ? number : 60),
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
                case "go": load.Start(); Say("GOING"); break;
                case "stop": load.Stop(); Say("STOPPED"); break;
                case "ping": Say("PONG"); break;
                case "quit": Say("BYE"); Environment.Exit(0); break;
                default: Say(load.Command(words)); break;
            }
        }
    }

    private static void Say(string line)
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
