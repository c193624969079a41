// SPDX-License-Identifier: MIT
// A small HTTP/1.1 server on plain sockets, whose answers and delays stand in the request: what the client sees is the client's own doing.
using System.Net;
using System.Net.Security;
using System.Net.Sockets;
using System.Security.Cryptography;
using System.Security.Cryptography.X509Certificates;
using System.Text;

namespace Lunette.Target;

/// <summary>GET /headers?ms=N answers after N ms; /content?ms=N sends the headers at once and the body N ms later; /redirect/CODE?ms=N
/// points to /landed after N ms; /status/CODE has that status; /gate answers when Gate is open; /hang never does; all else is 200.
/// Connections stay open.</summary>
internal sealed class HttpScripted
{
    /// <summary>Counts the requests to /gate and /hang that have come.</summary>
    public static readonly SemaphoreSlim Arrived = new(0);
    public static readonly ManualResetEventSlim Gate = new(false);

    private readonly Socket _listener = new(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp);
    private readonly X509Certificate2? _certificate;

    public int Port { get; }

    public HttpScripted(bool tls)
    {
        if (tls) _certificate = SelfSigned();
        _listener.Bind(new IPEndPoint(IPAddress.Loopback, 0));
        _listener.Listen(128);
        Port = ((IPEndPoint)_listener.LocalEndPoint!).Port;
        new Thread(Accept) { IsBackground = true, Name = "server" }.Start();
    }

    /// <summary>A port where nobody listens, since its socket is bound and does not.</summary>
    public static int ClosedPort()
    {
        var socket = new Socket(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp);
        socket.Bind(new IPEndPoint(IPAddress.Loopback, 0));
        return ((IPEndPoint)socket.LocalEndPoint!).Port;
    }

    private static X509Certificate2 SelfSigned()
    {
        using var key = ECDsa.Create(ECCurve.NamedCurves.nistP256);
        var request = new CertificateRequest("CN=localhost", key, HashAlgorithmName.SHA256);
        return request.CreateSelfSigned(DateTimeOffset.UtcNow.AddDays(-1), DateTimeOffset.UtcNow.AddDays(1));
    }

    private void Accept()
    {
        while (true)
        {
            var socket = _listener.Accept();
            new Thread(() => Serve(socket)) { IsBackground = true, Name = "connection" }.Start();
        }
    }

    private void Serve(Socket socket)
    {
        try
        {
            socket.NoDelay = true;
            using Stream raw = new NetworkStream(socket, ownsSocket: true);
            using var stream = _certificate == null ? raw : Secured(raw);
            while (Exchange(stream))
            {
            }
        }
        catch (Exception e) when (e is IOException or System.Security.Authentication.AuthenticationException)
        {
            // a client that went away, or does not trust us: on purpose
        }
    }

    private Stream Secured(Stream raw)
    {
        var stream = new SslStream(raw);
        stream.AuthenticateAsServer(_certificate!);
        return stream;
    }

    /// <summary>One request and its answer; false when the client has closed.</summary>
    private static bool Exchange(Stream stream)
    {
        string head = Head(stream);
        if (head == "") return false;
        var url = new Uri("http://localhost" + head.Split(' ')[1]);
        Body(stream, head);
        int ms = url.Query.Split("&ms=") is [_, var number] ? int.Parse(number) : 0;
        string[] words = url.AbsolutePath.Split('/');
        if (words[1] is "gate" or "hang") Arrived.Release();
        if (words[1] == "hang") return stream.ReadByte() >= 0; // until the client has had enough
        if (words[1] == "gate") Gate.Wait();
        bool content = words[1] == "content";
        if (!content) Thread.Sleep(ms);
        Write(stream, Answer(words, url));
        if (content) Thread.Sleep(ms);
        Write(stream, "ok\n");
        return true;
    }

    private static string Answer(string[] words, Uri url)
    {
        int status = words is [_, "redirect" or "status", var code] ? int.Parse(code) : 200;
        string more = words[1] == "redirect" ? "Location: /landed?token=S3cretRedirect\r\n" : "";
        return $"HTTP/1.1 {status} Scripted\r\nContent-Length: 3\r\n{more}\r\n";
    }

    private static void Write(Stream stream, string text) => stream.Write(Encoding.ASCII.GetBytes(text));

    private static string Head(Stream stream)
    {
        var head = new StringBuilder();
        while (head.Length < 4 || head.ToString(head.Length - 4, 4) != "\r\n\r\n")
        {
            int c = stream.ReadByte();
            if (c < 0) return "";
            head.Append((char)c);
        }
        return head.ToString();
    }

    private static void Body(Stream stream, string head)
    {
        string[] parts = head.Split("Content-Length: ");
        int left = parts.Length > 1 ? int.Parse(parts[1].Split('\r')[0]) : 0;
        while (left-- > 0) stream.ReadByte();
    }
}
