// SPDX-License-Identifier: MIT
// An ASP.NET Core service with TLS and the clients that ask it, in one process: quick, slow, failing and hanging endpoints, each asked a
// known number of times. Paths carry secrets, which no answer of ours may repeat.
#if LUNETTE_WEB
using System.Net;
using System.Net.Security;
using System.Security.Authentication;
using System.Security.Cryptography;
using System.Security.Cryptography.X509Certificates;
using Microsoft.AspNetCore.Builder;
using Microsoft.AspNetCore.Hosting;
using Microsoft.AspNetCore.Http;
using Microsoft.Extensions.Hosting;
using Microsoft.Extensions.Logging;

namespace Lunette.Target;

/// <summary>The server. "/hang" answers when `release` is said.</summary>
internal sealed class Server
{
    public const int SlowMs = 80;
    private static readonly byte[] Body = "ok\n"u8.ToArray();
    private readonly int[] _ports = new int[2];
    private TaskCompletionSource _release = new(TaskCreationOptions.RunContinuationsAsynchronously);
    private int _hanging;

    public int Port => _ports[0];
    public int TlsPort => _ports[1];
    public int Hanging => Volatile.Read(ref _hanging);

    public Server()
    {
        var builder = WebApplication.CreateSlimBuilder();
        builder.Logging.ClearProviders();
        builder.WebHost.UseKestrelHttpsConfiguration();
        builder.WebHost.ConfigureKestrel(options =>
        {
            options.Limits.MaxConcurrentConnections = 40;
            options.Listen(IPAddress.Loopback, 0);
            options.Listen(IPAddress.Loopback, 0, listen => listen.UseHttps(https =>
            {
                https.ServerCertificate = Certificate();
                https.SslProtocols = SslProtocols.Tls12 | SslProtocols.Tls13;
            }));
        });
        var app = builder.Build();
        app.Run(Answer);
        app.StartAsync().GetAwaiter().GetResult();
        int i = 0;
        foreach (string url in app.Urls) _ports[i++] = new Uri(url).Port;
    }

    public void Release() =>
        Interlocked.Exchange(ref _release, new(TaskCreationOptions.RunContinuationsAsynchronously)).SetResult();

    private async Task Answer(HttpContext context)
    {
        string path = context.Request.Path.Value ?? "";
        if (path == "/slow") await Task.Delay(SlowMs);
        if (path == "/fail") throw new InvalidOperationException("the endpoint fails on purpose");
        if (path.StartsWith("/hang/")) await Hang();
        context.Response.StatusCode = path == "/busy" ? 503 : path == "/missing" ? 404 : 200;
        context.Response.ContentLength = Body.Length;
        await context.Response.Body.WriteAsync(Body);
    }

    private async Task Hang()
    {
        Task released = _release.Task;
        Interlocked.Increment(ref _hanging);
        await released;
        Interlocked.Decrement(ref _hanging);
    }

    private static X509Certificate2 Certificate()
    {
        using var key = ECDsa.Create(ECCurve.NamedCurves.nistP256);
        var request = new CertificateRequest("CN=localhost", key, HashAlgorithmName.SHA256);
        return request.CreateSelfSigned(DateTimeOffset.UtcNow.AddDays(-1), DateTimeOffset.UtcNow.AddDays(1));
    }
}

/// <summary>A known number of requests of every sort at each go; those to /hang stay until `release`.</summary>
internal sealed class Served(int n) : Work, ILoad, IListens
{
    private const string Secret = "password=S3cretPathPassword", Token = "eyJhbGciOiJTM2NyZXQi.eyJzdWIiOiJTM2NyZXRQYXRoIn0.S3cretSignature";
    private readonly Server _server = new();
    private readonly List<WebConnection> _held = [];

    public int Port => _server.Port;

    protected override string Do()
    {
        using (var plain = new WebConnection(_server.Port))
        {
            for (int i = 0; i < 2 * n; i++) plain.Ask("GET", "/ok");
            for (int i = 0; i < n; i++) plain.Ask("POST", "/ok");
            plain.Ask("GET", "/slow");
            plain.Ask("GET", "/slow");
            for (int i = 0; i < 2; i++) plain.Ask("GET", "/reset/" + Secret);
            plain.Ask("GET", "/token/" + Token);
            for (int i = 0; i < 3; i++) plain.Ask("GET", "/missing");
            for (int i = 0; i < 4; i++) plain.Ask("GET", "/busy");
        }
        for (int i = 0; i < 2; i++)
        {
            using var failing = new WebConnection(_server.Port);
            failing.Ask("GET", "/fail");
        }
        for (int i = 0; i < n; i++)
        {
            using var secure = new WebConnection(_server.TlsPort, i % 2 == 0 ? SslProtocols.Tls13 : SslProtocols.Tls12);
            secure.Ask("GET", "/ok");
        }
        for (int i = 0; i < 3; i++) WebConnection.FailHandshake(_server.TlsPort);
        int h2 = Http2();
        Hold();
        return Told(h2);
    }

    private string Told(int h2)
    {
        int plain = 3 * n + 2 + 3 + 3 + 4;
        return $"requests={plain + 2 + n + h2 + 3} answered={plain + 2 + n + h2} get_ok={2 * n} post_ok={n} slow=2 secret=3 missing=3 busy=4 failed=2 " +
            $"tls_ok={n} tls_h2={h2} handshakes={n + 1 + 3} handshakes_failed=3 hanging={_server.Hanging} " +
            $"connections={1 + 2 + n + 3 + 1 + 3} slow_ms={Server.SlowMs} port={_server.Port} tls_port={_server.TlsPort}";
    }

    /// <summary>HTTP/2 requests over one connection.</summary>
    private int Http2()
    {
        using var handler = new SocketsHttpHandler
        {
            UseProxy = false, SslOptions = new SslClientAuthenticationOptions { RemoteCertificateValidationCallback = (_, _, _, _) => true },
        };
        using var client = new HttpClient(handler)
        {
            DefaultRequestVersion = HttpVersion.Version20, DefaultVersionPolicy = HttpVersionPolicy.RequestVersionExact,
        };
        for (int i = 0; i < n; i++)
            client.GetAsync($"https://127.0.0.1:{_server.TlsPort}/ok").GetAwaiter().GetResult().Dispose();
        return n;
    }

    /// <summary>Three requests that get no answer before `release`, one after another, each with a trace id of its own.</summary>
    private void Hold()
    {
        string[] methods = ["GET", "PUT", "POST"];
        for (int i = 0; i < 3; i++)
        {
            var connection = new WebConnection(_server.Port);
            _held.Add(connection);
            int before = _server.Hanging;
            string path = i == 2 ? "/hang/2/" + Secret : $"/hang/{i}";
            connection.Send(methods[i], path, $"traceparent: 00-{0x1d000000 + i:x32}-{0x5a000000 + i:x16}-01\r\n");
            Until(() => _server.Hanging == before + 1);
        }
    }

    public string Command(string[] words)
    {
        switch (words[0])
        {
            case "release":
                _server.Release();
                foreach (var connection in _held)
                {
                    connection.Receive();
                    connection.Dispose();
                }
                _held.Clear();
                return "RELEASED";
            case "ask": // ask N PATH: over one connection
                using (var connection = new WebConnection(_server.Port))
                    for (int i = 0; i < int.Parse(words[1]); i++) connection.Ask("GET", words[2]);
                return "ASKED";
            default: return "ERROR unknown command";
        }
    }
}
#endif
