// SPDX-License-Identifier: MIT
// A small ASP.NET Core server that does what slow services do: it blocks pool threads in a handler, so that requests wait while the CPU is idle.
#if LUNETTE_WEB
using System.Net;
using System.Net.Sockets;
using System.Text;
using Microsoft.AspNetCore.Builder;
using Microsoft.AspNetCore.Hosting.Server;
using Microsoft.AspNetCore.Hosting.Server.Features;
using Microsoft.AspNetCore.Http;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Logging;

namespace Lunette.Target;

internal sealed class Web : Threads, IListens
{
    private const int SlowMs = 600;
    private readonly int _clients;

    public int Port { get; }

    public Web(int clients)
    {
        _clients = clients;
        var builder = WebApplication.CreateSlimBuilder();
        builder.Logging.ClearProviders();
        var app = builder.Build();
        app.Urls.Add("http://127.0.0.1:0");
        app.Run(Answer);
        app.StartAsync().GetAwaiter().GetResult();
        var addresses = app.Services.GetRequiredService<IServer>().Features.Get<IServerAddressesFeature>()!.Addresses;
        Port = new Uri(addresses.First()).Port;
    }

    private static Task Answer(HttpContext context)
    {
        if (context.Request.Path == "/slow") Thread.Sleep(SlowMs); // on purpose: the mistake that this mode shows
        return context.Response.WriteAsync("ok\n");
    }

    protected override IEnumerable<Action> Bodies() => Enumerable.Repeat(Ask, _clients);

    private void Ask()
    {
        var request = Encoding.ASCII.GetBytes("GET /slow HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        var answer = new byte[4096];
        while (Running)
        {
            try
            {
                using var socket = new Socket(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp);
                socket.Connect(IPAddress.Loopback, Port);
                socket.Send(request);
                while (socket.Receive(answer) > 0) { }
            }
            catch (SocketException)
            {
                // an overloaded server drops connections: the client comes again
            }
        }
    }
}
#endif
