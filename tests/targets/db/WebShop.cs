// SPDX-License-Identifier: MIT
// A web server of this process whose requests each ask the database once under a span of their own: what windows of requests, db and
// activities see side by side is known to each.
using System.Diagnostics;
using System.Net;
using Microsoft.AspNetCore.Builder;
using Microsoft.AspNetCore.Hosting;
using Microsoft.AspNetCore.Http;
using Microsoft.Data.Sqlite;
using Microsoft.EntityFrameworkCore;
using Microsoft.Extensions.Hosting;
using Microsoft.Extensions.Logging;

namespace Lunette.Target;

/// <summary>N requests one after another, a few milliseconds apart; then as many again for each further `go`.</summary>
internal sealed class WebShop : Work
{
    private static readonly ActivitySource Source = new("Lunette.Shop");
    private readonly int _n;
    private readonly string _url;
    private readonly SqliteConnection _connection = EntityFramework.Open(1);

    public WebShop(int n)
    {
        _n = n;
        var builder = WebApplication.CreateSlimBuilder();
        builder.Logging.ClearProviders();
        builder.WebHost.ConfigureKestrel(options => options.Listen(IPAddress.Loopback, 0));
        var app = builder.Build();
        app.Run(Answer);
        app.StartAsync().GetAwaiter().GetResult();
        _url = app.Urls.First();
    }

    private async Task Answer(HttpContext http)
    {
        using var span = Source.StartActivity("buy");
        using var context = new Blogs(_connection);
        int count = context.All.Count();
        await http.Response.WriteAsync(count.ToString());
    }

    protected override string Do()
    {
        using var client = new HttpClient();
        for (int i = 0; i < _n; i++)
        {
            client.GetStringAsync(_url + "/buy").GetAwaiter().GetResult();
            Thread.Sleep(2);
        }
        return $"requests={_n} commands={_n} spans={_n}";
    }
}
