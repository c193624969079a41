// SPDX-License-Identifier: MIT
// A small ASP.NET Core server that does what slow services do: it blocks pool threads in a handler, so that requests wait while the CPU is idle.
#if LUNETTE_WEB
using System.Net;
using System.Net.Sockets;
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
        context.Response.ContentLength = 3;
        return context.Response.WriteAsync("ok\n");
    }

    protected override IEnumerable<Action> Bodies() => Enumerable.Repeat(Ask, _clients);

    private void Ask()
    {
        while (Running)
        {
            try
            {
                using var socket = new Socket(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp) { ReceiveTimeout = 60_000 };
                socket.Connect(IPAddress.Loopback, Port);
                while (Running) Exchange(socket);
            }
            catch (SocketException)
            {
                // an overloaded server drops connections: the client comes again
            }
        }
    }

    /// <summary>One request over a connection that stays open; the answer ends with its three bytes of body.</summary>
    private static void Exchange(Socket socket)
    {
        socket.Send("GET /slow HTTP/1.1\r\nHost: localhost\r\n\r\n"u8);
        Span<byte> answer = stackalloc byte[1024];
        int n = 0;
        while (!answer[..n].EndsWith("\r\n\r\nok\n"u8))
        {
            int got = socket.Receive(answer[n..]);
            if (got == 0) throw new SocketException((int)SocketError.ConnectionReset);
            n += got;
        }
    }
}
#endif
