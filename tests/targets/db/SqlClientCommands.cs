// SPDX-License-Identifier: MIT
// Microsoft.Data.SqlClient itself, with and without EF Core, against a server of this process: a known number of commands of every sort, a
// pool that is exhausted; secrets in the connection string, in values and in what the server answers.
using System.Data;
using System.Diagnostics;
using Microsoft.Data.SqlClient;
using Microsoft.EntityFrameworkCore;

namespace Lunette.Target;

internal sealed class OverSqlServer(string connection) : DbContext
{
    protected override void OnConfiguring(DbContextOptionsBuilder options) => options.UseSqlServer(connection);
}

/// <summary>N commands under one activity, each with another value in its text; some with a parameter; a few that fail; some by EF Core.</summary>
internal sealed class SqlClientCommands : Work
{
    private const int Failed = 3, Parameters = 5, ByEf = 4, PoolSize = 2, Exhausted = 2;
    private readonly int _n;
    private readonly TdsServer _server = new("Invalid object name 'S3cretError'.");
    private readonly string _connection, _small;

    public SqlClientCommands(int n)
    {
        _n = n;
        // the two differ, so that each has a pool of its own
        _connection = $"Server=127.0.0.1,{_server.Port};Database=shop;User ID=sa;Password=S3cretConnection;Encrypt=false;Application Name=shop";
        _small = _connection + $";Max Pool Size={PoolSize};Connect Timeout=1";
    }

    protected override string Do()
    {
        int before = _server.Statements;
        string trace = "";
        using (var activity = new Activity("order").Start())
        {
            trace = activity.TraceId.ToHexString();
            using var connection = Open(_connection);
            for (int i = 0; i < _n; i++) Execute(connection, $"SELECT * FROM Orders WHERE Id = {i} AND Card = 'S3cretCard{i}'");
        }
        using (var connection = Open(_connection))
        {
            for (int i = 0; i < Parameters; i++) WithParameter(connection, $"S3cretParameter{i}");
            for (int i = 0; i < Failed; i++) Fail(connection);
        }
        using (var context = new OverSqlServer(_connection))
            for (int i = 0; i < ByEf; i++) context.Database.ExecuteSqlRaw("UPDATE Stock SET Left = 1");
        for (int i = 0; i < Exhausted; i++) Exhaust();
        int seen = _server.Statements - before;
        return $"commands={_n + Parameters + Failed + ByEf} statements={seen} select={_n} parameters={Parameters} failed={Failed} both={ByEf} " +
            $"exhausted={Exhausted} select_trace={trace}";
    }

    private static SqlConnection Open(string text)
    {
        var connection = new SqlConnection(text);
        connection.Open();
        return connection;
    }

    private static void Execute(SqlConnection connection, string sql)
    {
        using var command = new SqlCommand(sql, connection);
        using var reader = command.ExecuteReader();
        while (reader.Read())
        {
        }
    }

    private static void WithParameter(SqlConnection connection, string value)
    {
        using var command = new SqlCommand("SELECT Id FROM Users WHERE Token = @token", connection);
        command.Parameters.Add("@token", SqlDbType.NVarChar, 40).Value = value;
        command.ExecuteScalar();
    }

    private static void Fail(SqlConnection connection)
    {
        try
        {
            using var command = new SqlCommand("DELETE FROM fails", connection);
            command.ExecuteNonQuery();
        }
        catch (SqlException)
        {
            // on purpose
        }
    }

    /// <summary>All connections of a pool are in use; the next one waits in vain.</summary>
    private void Exhaust()
    {
        var held = new SqlConnection[PoolSize];
        for (int i = 0; i < PoolSize; i++) held[i] = Open(_small);
        try
        {
            Open(_small).Dispose();
        }
        catch (InvalidOperationException)
        {
            // on purpose
        }
        foreach (var connection in held) connection.Dispose();
    }
}
