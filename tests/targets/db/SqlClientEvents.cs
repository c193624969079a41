// SPDX-License-Identifier: MIT
// What a program with Microsoft.Data.SqlClient tells diagnostics, written by this program, because there is no server to ask: the
// DiagnosticSource events of the listener, the events and counters of the EventSource, with the names, fields and order of the package.
using System.Diagnostics;
using System.Diagnostics.Tracing;

namespace Lunette.Target;

#pragma warning disable CA1822 // members are read by name, on the instance

internal sealed class FakeConnection
{
    public string Database => "shop";
    public string DataSource => "tcp:db.example,1433";
    public string ConnectionString => "Server=tcp:db.example,1433;Database=shop;User ID=sa;Password=S3cretConnection";
}

internal sealed class FakeCommand(string text)
{
    public string CommandText => text;
    public FakeConnection Connection { get; } = new();
}

[EventSource(Name = "Microsoft.Data.SqlClient.EventSource")]
internal sealed class FakeSqlClient : EventSource
{
    private PollingCounter? _hard, _pooled, _active;
    private IncrementingPollingCounter? _connects;
    public double Hard, Pooled, Active, Connects;

    public static class Keywords
    {
        public const EventKeywords ExecutionTrace = (EventKeywords)1;
    }

    [Event(1, Keywords = Keywords.ExecutionTrace, Task = (EventTask)1, Opcode = EventOpcode.Start)]
    public void BeginExecute(int objectId, string dataSource, string database, string commandText, string message) =>
        WriteEvent(1, objectId, dataSource, database, commandText, message);

    [Event(2, Keywords = Keywords.ExecutionTrace, Task = (EventTask)1, Opcode = EventOpcode.Stop)]
    public void EndExecute(int objectId, int compositestate, int sqlExceptionNumber, string message) =>
        WriteEvent(2, objectId, compositestate, sqlExceptionNumber, message);

    protected override void OnEventCommand(EventCommandEventArgs command)
    {
        if (command.Command != EventCommand.Enable) return;
        _hard ??= new PollingCounter("active-hard-connections", this, () => Hard) { DisplayName = "Actual active connections currently made to servers" };
        _pooled ??= new PollingCounter("number-of-pooled-connections", this, () => Pooled) { DisplayName = "Number of connections managed by the connection pool" };
        _active ??= new PollingCounter("number-of-active-connections", this, () => Active) { DisplayName = "Number of active connections" };
        _connects ??= new IncrementingPollingCounter("hard-connects", this, () => Connects) { DisplayName = "Actual connection rate to servers" };
    }
}

/// <summary>N commands under one activity, by listener and event source; a few that fail; one told by EF Core, too; a pool that is exhausted.</summary>
internal sealed class SqlClientEvents(int n) : Work
{
    private const string Prefix = "Microsoft.Data.SqlClient.";
    private const int CommandMs = 5, Failed = 3, Exhausted = 2, Both = 4;
    private readonly DiagnosticListener _listener = new("SqlClientDiagnosticListener"), _ef = new("Microsoft.EntityFrameworkCore");
    private readonly FakeSqlClient _source = new();
    private int _objects;

    protected override string Do()
    {
        _source.Hard = 7;
        _source.Pooled = 9;
        _source.Active = 4;
        _source.Connects += 9;
        using (var activity = new Activity("order").Start())
            for (int i = 0; i < n; i++) Execute($"SELECT * FROM Orders WHERE Id = {i} AND Card = 'S3cretCard{i}'");
        for (int i = 0; i < Failed; i++) Execute("EXEC dbo.Charge @amount", "Invalid object S3cretError");
        for (int i = 0; i < Both; i++) TwiceTold("SELECT [o].[Id] FROM [Orders] AS [o]");
        for (int i = 0; i < Exhausted; i++) Exhaust();
        Thread.Sleep(2500); // two ticks of the counters at least
        _source.Hard = 5;
        Thread.Sleep(2500);
        return $"commands={n + Failed + Both} select={n} failed={Failed} both={Both} exhausted={Exhausted} command_ms={CommandMs} hard_max=7 hard=5 pooled=9";
    }

    private void Write(DiagnosticListener listener, string name, object payload)
    {
        if (listener.IsEnabled(name)) listener.Write(name, payload);
    }

    private void Execute(string sql, string? error = null)
    {
        var command = new FakeCommand(sql);
        var id = Guid.NewGuid();
        int number = ++_objects;
        Write(_listener, Prefix + "WriteCommandBefore", new { OperationId = id, Operation = "ExecuteReader", ConnectionId = id, Command = command });
        _source.BeginExecute(number, command.Connection.DataSource, command.Connection.Database, sql, "");
        Thread.Sleep(CommandMs);
        _source.EndExecute(number, error == null ? 5 : 6, error == null ? 0 : 208, "");
        if (error == null)
            Write(_listener, Prefix + "WriteCommandAfter", new { OperationId = id, Operation = "ExecuteReader", ConnectionId = id, Command = command, Timestamp = 1L });
        else
            Write(_listener, Prefix + "WriteCommandError", new { OperationId = id, Command = command, Exception = new InvalidOperationException(error), Timestamp = 1L });
    }

    /// <summary>As EF Core over SqlClient does: both tell of the same command.</summary>
    private void TwiceTold(string sql)
    {
        var command = new FakeCommand(sql);
        Execute(sql);
        Write(_ef, "Microsoft.EntityFrameworkCore.Database.Command.CommandExecuted",
            new { Command = command, CommandId = Guid.NewGuid(), Duration = TimeSpan.FromMilliseconds(CommandMs + 1) });
    }

    private void Exhaust() => Write(_listener, Prefix + "WriteConnectionOpenError", new
    {
        OperationId = Guid.NewGuid(),
        Exception = new InvalidOperationException("Timeout expired.  The timeout period elapsed prior to obtaining a connection from the pool.  " +
            "This may have occurred because all pooled connections were in use and max pool size was reached."),
    });
}
