// SPDX-License-Identifier: MIT
// A client's side of one HTTP/1.1 connection, plain or TLS, without HttpClient: it makes no activities and no events of its own source.
#if LUNETTE_WEB
using System.Net;
using System.Net.Security;
using System.Net.Sockets;
using System.Security.Authentication;
using System.Text;

namespace Lunette.Target;

internal sealed class WebConnection : IDisposable
{
    private readonly Socket _socket = new(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp) { NoDelay = true, ReceiveTimeout = 60_000 };
    private readonly Stream _stream;

    public WebConnection(int port, SslProtocols protocol = SslProtocols.None)
    {
        _socket.Connect(IPAddress.Loopback, port);
        _stream = new NetworkStream(_socket);
        if (protocol == SslProtocols.None) return;
        var secure = new SslStream(_stream, false, (_, _, _, _) => true);
        secure.AuthenticateAsClient(new SslClientAuthenticationOptions
        {
            TargetHost = "localhost", EnabledSslProtocols = protocol, ApplicationProtocols = [SslApplicationProtocol.Http11],
        });
        _stream = secure;
    }

    public void Send(string method, string path, string headers = "")
    {
        string length = method == "GET" ? "" : "Content-Length: 0\r\n";
        _stream.Write(Encoding.ASCII.GetBytes($"{method} {path} HTTP/1.1\r\nHost: localhost\r\n{length}{headers}\r\n"));
    }

    /// <summary>Reads one answer: its head, then as many bytes as Content-Length says. Gives the status.</summary>
    public int Receive()
    {
        var head = new StringBuilder();
        while (!head.ToString().EndsWith("\r\n\r\n"))
        {
            int b = _stream.ReadByte();
            if (b < 0) throw new IOException("the connection ended: " + head);
            head.Append((char)b);
        }
        int length = 0;
        foreach (string line in head.ToString().Split("\r\n"))
            if (line.StartsWith("Content-Length:", StringComparison.OrdinalIgnoreCase)) length = int.Parse(line[15..]);
        for (int i = 0; i < length; i++)
            if (_stream.ReadByte() < 0) throw new IOException("the connection ended in a body");
        return int.Parse(head.ToString().Substring(9, 3));
    }

    public int Ask(string method, string path)
    {
        Send(method, path);
        return Receive();
    }

    /// <summary>What is no handshake, sent to a port that wants one; waits until the server closes.</summary>
    public static void FailHandshake(int port)
    {
        using var connection = new WebConnection(port);
        connection.Send("GET", "/ok");
        try
        {
            while (connection._stream.ReadByte() >= 0) { }
        }
        catch (IOException)
        {
            // reset instead of closed: as good
        }
    }

    public void Dispose()
    {
        _stream.Dispose();
        _socket.Dispose();
    }
}
#endif
