// SPDX-License-Identifier: MIT
// An HttpClient program and the server that it asks, in one process: every way that an outgoing request can go, each a known number of times.
using System.Diagnostics;
using System.Net;
using System.Net.Security;

namespace Lunette.Target;

/// <summary>Requests of every fate, one kind after another. Addresses carry secrets in user info, path and query, which no answer of ours
/// may repeat. Names are resolved (localhost), so a new connection asks for one lookup.</summary>
internal sealed class Outbound(int n) : Work
{
    public const int DelayMs = 150, LegMs = 60, QueueMs = 80;
    private const string User = "svc:S3cretUserInfo", Token = "eyJhbGciOiJTM2NyZXQi.eyJzdWIiOiJTM2NyZXRQYXRoIn0.S3cretSignature";
    private static readonly int[] Redirects = [301, 302, 303, 307, 308];
    private readonly HttpScripted _plain = new(tls: false), _secure = new(tls: true);
    private int _started, _failed, _statusErrors, _lookupsFailed, _asking;

    private string Url(string path, string query = "") => $"http://{User}@localhost:{_plain.Port}{path}?token=S3cretQuery{query}";

    protected override string Do()
    {
        _started = _failed = _statusErrors = _lookupsFailed = 0;
        using (var client = new HttpClient(Handler()))
        {
            for (int i = 0; i < n; i++) Get(client, Url("/plain/" + Token));
            for (int i = 0; i < 2; i++) Get(client, Url("/headers", $"&ms={DelayMs}"));
            for (int i = 0; i < 2; i++) Get(client, Url("/content", $"&ms={DelayMs}"));
            foreach (int code in Redirects) Get(client, Url($"/redirect/{code}", $"&ms={LegMs}"));
            for (int i = 0; i < 2; i++) Post(client, Url("/upload"));
            for (int i = 0; i < 3; i++) Get(client, Url("/status/503"));
            for (int i = 0; i < 2; i++) GiveUp(client, Url("/hang"));
        }
        Failures();
        Secure();
        Exhaust();
        string counts = $"requests={_started} plain={n} slow_headers=2 slow_content=2 redirects={Redirects.Length} posts=2";
        string failures = $"failed={_failed} refused=2 cancelled=2 tls_failed=2 status_errors={_statusErrors} dns_failed={_lookupsFailed}";
        string ports = $"port={_plain.Port} tls_port={_secure.Port}";
        return $"{counts} {failures} tls_ok=1 queued=3 delay_ms={DelayMs} leg_ms={LegMs} queue_ms={QueueMs} {ports}";
    }

    private static SocketsHttpHandler Handler(bool trusting = false, int connections = int.MaxValue) => new()
    {
        UseProxy = false, MaxConnectionsPerServer = connections,
        SslOptions = trusting ? new SslClientAuthenticationOptions { RemoteCertificateValidationCallback = (_, _, _, _) => true } : new(),
    };

    private HttpResponseMessage? Send(HttpClient client, HttpRequestMessage request, CancellationToken cancel = default)
    {
        Interlocked.Increment(ref _started);
        try
        {
            var response = client.Send(request, cancel);
            if ((int)response.StatusCode >= 400) Interlocked.Increment(ref _statusErrors);
            return response;
        }
        catch (Exception e) when (e is HttpRequestException or OperationCanceledException)
        {
            Interlocked.Increment(ref _failed);
            return null;
        }
    }

    private void Get(HttpClient client, string url)
    {
        using var request = new HttpRequestMessage(HttpMethod.Get, url);
        using var response = Send(client, request);
    }

    private void Post(HttpClient client, string url)
    {
        using var request = new HttpRequestMessage(HttpMethod.Post, url) { Content = new ByteArrayContent(new byte[100]) };
        using var response = Send(client, request);
    }

    /// <summary>Gives up a request once it has come to the server, which never answers it.</summary>
    private void GiveUp(HttpClient client, string url)
    {
        using var cancel = new CancellationTokenSource();
        var impatient = new Thread(() =>
        {
            HttpScripted.Arrived.Wait();
            cancel.Cancel();
        });
        impatient.Start();
        using var request = new HttpRequestMessage(HttpMethod.Get, url);
        using var response = Send(client, request, cancel.Token);
        impatient.Join();
    }

    private void Failures()
    {
        using var client = new HttpClient(Handler());
        for (int i = 0; i < 2; i++) Get(client, $"http://{User}@localhost:{HttpScripted.ClosedPort()}/refused");
        for (int i = 0; i < 2; i++) Get(client, $"https://localhost:{_secure.Port}/untrusted");
        try
        {
            Dns.GetHostAddresses("no..such..name");
        }
        catch (System.Net.Sockets.SocketException)
        {
            _lookupsFailed++;
        }
    }

    private void Secure()
    {
        using var client = new HttpClient(Handler(trusting: true));
        for (int i = 0; i < 2; i++) Get(client, $"https://localhost:{_secure.Port}/plain");
    }

    /// <summary>One connection and four requests: the server holds the first until the others have waited for it, one after another
    /// then takes QueueMs.</summary>
    private void Exhaust()
    {
        using var client = new HttpClient(Handler(connections: 1));
        Get(client, Url("/warm")); // there is the one connection
        HttpScripted.Gate.Reset();
        _asking = 0;
        var first = new Thread(() => Get(client, Url("/gate")));
        first.Start();
        HttpScripted.Arrived.Wait();
        var others = Enumerable.Range(0, 3).Select(_ => new Thread(() => Ask(client))).ToList();
        others.ForEach(a => a.Start());
        Until(() => Volatile.Read(ref _asking) == 3);
        Thread.Sleep(QueueMs);
        HttpScripted.Gate.Set();
        first.Join();
        others.ForEach(a => a.Join());
    }

    private void Ask(HttpClient client)
    {
        Interlocked.Increment(ref _asking);
        Get(client, Url("/headers", $"&ms={QueueMs}"));
    }
}
