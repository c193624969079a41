// SPDX-License-Identifier: MIT
// One secret, planted in every field that can carry one: statements, log messages, scopes and exceptions, URLs, headers, baggage, tags of
// spans and of meters, names and values of events, names of hosts. It must be nowhere in what is told of this process. Baggage is here in case
// somebody asks for it one day; nobody does.
using System.Diagnostics;
using System.Diagnostics.Metrics;
using System.Diagnostics.Tracing;
using System.Net;
using Microsoft.AspNetCore.Builder;
using Microsoft.AspNetCore.Hosting;
using Microsoft.AspNetCore.Http;
using Microsoft.Data.Sqlite;
using Microsoft.EntityFrameworkCore;
using Microsoft.Extensions.Hosting;
using Microsoft.Extensions.Logging;

namespace Lunette.Target;

[EventSource(Name = "Lunette-Secrets")]
internal sealed class SecretSource : EventSource
{
    public static readonly SecretSource Log = new();
    private SecretSource() : base(EventSourceSettings.EtwSelfDescribingEventFormat) { }

    [Event(1, Level = EventLevel.Informational)]
    public void Login(string password, string message, int ghp_hunter2Lunette0123456789abcdef) =>
        WriteEvent(1, password, message, ghp_hunter2Lunette0123456789abcdef);
}

internal sealed class Secrets : Work
{
    public const string Secret = "hunter2Lunette0123456789abcdef";
    private const string Assigned = "password=" + Secret;
    private static readonly ActivitySource Source = new("Lunette.Secrets");
    private static readonly Meter Meter = new("Lunette.Secrets");
    private static readonly Counter<long> Logins = Meter.CreateCounter<long>("logins");
    private readonly SqliteConnection _connection = EntityFramework.Open(1);
    private readonly ILogger _log;
    private readonly int _port;

    public Secrets()
    {
        var builder = WebApplication.CreateSlimBuilder();
        builder.Logging.ClearProviders();
        builder.Logging.AddEventSourceLogger();
        builder.WebHost.ConfigureKestrel(options => options.Listen(IPAddress.Loopback, 0));
        var app = builder.Build();
        _log = app.Services.GetService(typeof(ILoggerFactory)) is ILoggerFactory factory ? factory.CreateLogger("Lunette.Secrets") : throw new InvalidOperationException();
        app.Run(Answer);
        app.StartAsync().GetAwaiter().GetResult();
        _port = new Uri(app.Urls.First()).Port;
    }

    private static async Task Answer(HttpContext http)
    {
        http.Response.Headers.SetCookie = $"session={Secret}; path=/";
        if (http.Request.Path.Value!.StartsWith("/move")) http.Response.Redirect($"/landed?token={Secret}");
        await Task.Delay(5);
    }

    protected override string Do()
    {
        using (var span = Source.StartActivity("login " + Assigned))
        {
            span?.SetTag("db.password", Secret).SetTag("http.request.header.cookie", $"Cookie: session={Secret}; a=b").SetTag("url.full", $"http://u:{Secret}@h/?sig={Secret}")
                .SetTag("db.statement", $"SELECT '{Secret}'").SetTag("token=" + Secret, 1).SetStatus(ActivityStatusCode.Error, "Bearer " + Secret);
            span?.AddBaggage("password", Secret);
            Statements();
            Messages();
            Requests();
        }
        SecretSource.Log.Login(Secret, $"Authorization: Digest username=\"u\", response=\"{Secret}\"", 1);
        SecretSource.Log.Write("login token=" + Secret, new { list = new Dictionary<string, string> { ["password=" + Secret] = "x", ["token"] = Secret } });
        for (int i = 0; i < 3; i++)
        {
            Logins.Add(1, new("api_key", Secret), new("cookie", $"Set-Cookie: id={Secret}; path=/"));
            try { throw new InvalidOperationException($"cannot log in: pwd -> {Secret}"); }
            catch (InvalidOperationException) { /* on purpose */ }
        }
        Thread.Sleep(1500); // a tick of the meters at least
        return "planted=1";
    }

    private void Statements()
    {
        using var context = new Blogs(_connection);
        foreach (string sql in new[]
                 {
                     $"UPDATE Posts SET Title = '{Secret}' -- {Secret}", $"UPDATE Posts SET Title = 'O''Brien' /* {Secret} */ WHERE Title = \"{Secret}\"",
                     $"UPDATE Posts SET Title = 'O'Brien {Secret}' WHERE Id = 1",
                 })
        {
            try { context.Database.ExecuteSqlRaw(sql); }
            catch (SqliteException) { /* the quotes of some are not right */ }
        }
    }

    private void Messages()
    {
        using var scope = _log.BeginScope(new Dictionary<string, object> { ["Password"] = Secret, ["note"] = Assigned });
        _log.LogInformation("login with {Password} and {Note}", Secret, "Cookie: session=" + Secret);
        _log.LogInformation("Authorization: Bearer {Value}", Secret);
        _log.LogError(new EventId(1, Assigned), new InvalidOperationException($"Server=db;User Id=sa;Password={Secret};"), "cannot connect: {Why}", Assigned);
    }

    private void Requests()
    {
        using var client = new HttpClient();
        client.DefaultRequestHeaders.Add("Cookie", "session=" + Secret);
        foreach (string url in new[]
                 {
                     $"http://u:{Secret}@127.0.0.1:{_port}/a/{Assigned}?token={Secret}&sig={Secret}", $"http://127.0.0.1:{_port}/move?api_key={Secret}",
                     $"https://ghp_{Secret}.invalid/?pass={Secret}",
                 })
        {
            try { client.GetStringAsync(url).GetAwaiter().GetResult(); }
            catch (HttpRequestException) { /* there is no such host */ }
        }
    }
}
