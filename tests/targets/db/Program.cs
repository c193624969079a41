// SPDX-License-Identifier: MIT
// The database target's entry: says READY, then obeys one-word commands on standard input as the other target does.
namespace Lunette.Target;

/// <summary>A load that can be switched on and off while the process lives.</summary>
internal interface ILoad
{
    void Start();
    void Stop();
    void Started() { }
}

internal static class Program
{
    private static int Main(string[] args)
    {
        int n = args.Length > 1 && int.TryParse(args[1], out int given) ? given : 12;
        ILoad? load = args.FirstOrDefault() switch
        {
            "ef" => new EntityFramework(n),
            "sqlclient" => new SqlClientCommands(n),
            "sqlevents" => new SqlClientEvents(n),
            "shop" => new WebShop(n),
            "secrets" => new Secrets(),
            "idle" => new Nothing(),
            _ => null,
        };
        if (load == null)
        {
            Console.Error.WriteLine("usage: lunette-db ef | sqlclient | sqlevents | shop | secrets | idle [NUMBER]\n" +
                "  ef N         EF Core on SQLite: a loop that asks N times for what one query could bring, and commands of every sort (12)\n" +
                "  sqlclient N  Microsoft.Data.SqlClient, with and without EF Core, against a small server of this process (12)\n" +
                "  sqlevents N  the events of SqlClient, written by this program: each command told by listener and event source (12)\n" +
                "  shop N       a web server whose N requests each ask the database once, under a span (12)\n" +
                "  secrets      one secret in every field that can carry one\n" +
                "Prints READY PID MODE 0. Commands: go, stop, ping, quit.");
            return 2;
        }
        Say($"READY {Environment.ProcessId} {args[0]} 0");
        while (Console.In.ReadLine() is { } line)
        {
            switch (line.Trim())
            {
                case "go": load.Start(); Say("GOING"); load.Started(); break;
                case "stop": load.Stop(); Say("STOPPED"); break;
                case "ping": Say("PONG"); break;
                case "quit": Say("BYE"); Environment.Exit(0); break;
                default: Say("ERROR unknown command"); break;
            }
        }
        return 0;
    }

    public static void Say(string line)
    {
        Console.Out.WriteLine(line);
        Console.Out.Flush();
    }
}

internal sealed class Nothing : ILoad
{
    public void Start() { }
    public void Stop() { }
}
