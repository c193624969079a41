// SPDX-License-Identifier: MIT
// As much of a SQL Server as Microsoft.Data.SqlClient needs for a plain connection: TDS 7.4 without encryption (the protocol is published as
// MS-TDS). Every statement is answered with one row of one number; one that holds the word "fails" with an error, as a missing table would be.
using System.Buffers.Binary;
using System.Net;
using System.Net.Sockets;
using System.Text;

namespace Lunette.Target;

/// <summary>Listens on a port of its own on the loopback until the process ends; counts what it was sent.</summary>
internal sealed class TdsServer
{
    private const byte Batch = 0x01, Rpc = 0x03, Reply = 0x04, Attention = 0x06, Transaction = 0x0E, Login = 0x10, Prelogin = 0x12;
    private const byte EndOfMessage = 0x01;
    private const int HeaderBytes = 8, LongestPacket = 32 * 1024;
    private readonly TcpListener _listener = new(IPAddress.Loopback, 0);
    private readonly string _error;
    private int _statements;

    /// <param name="error">The text of every error.</param>
    public TdsServer(string error)
    {
        _error = error;
        _listener.Start();
        new Thread(Accept) { IsBackground = true, Name = "tds accept" }.Start();
    }

    public int Port => ((IPEndPoint)_listener.LocalEndpoint).Port;

    /// <summary>Statements received, by whichever kind of packet.</summary>
    public int Statements => Volatile.Read(ref _statements);

    private void Accept()
    {
        while (true)
        {
            var client = _listener.AcceptTcpClient();
            client.NoDelay = true;
            new Thread(() => Serve(client)) { IsBackground = true, Name = "tds" }.Start();
        }
    }

    private void Serve(TcpClient client)
    {
        using var _ = client;
        var stream = client.GetStream();
        try
        {
            while (true)
            {
                var (type, body) = Receive(stream);
                Send(stream, type switch
                {
                    Prelogin => PreloginAnswer(),
                    Login => [.. LoginAcknowledged(), .. Done(0xFD, 0, 0)],
                    Attention => Done(0xFD, 0x20, 0),
                    Transaction => [.. TransactionChanged(body), .. Done(0xFD, 0, 0)],
                    Batch => Answer(body, 0xFD),
                    Rpc => Answer(body, 0xFE),
                    _ => throw new InvalidDataException($"packet of type {type}"),
                });
            }
        }
        catch (Exception e) when (e is IOException or EndOfStreamException)
        {
            // the client went away
        }
    }

    /// <summary>One message, put together from its packets.</summary>
    private static (byte Type, byte[] Body) Receive(NetworkStream stream)
    {
        var header = new byte[HeaderBytes];
        var body = new MemoryStream();
        do
        {
            stream.ReadExactly(header);
            int length = BinaryPrimitives.ReadUInt16BigEndian(header.AsSpan(2)) - HeaderBytes;
            if (length is < 0 or > LongestPacket) throw new InvalidDataException($"packet of {length} bytes");
            var part = new byte[length];
            stream.ReadExactly(part);
            body.Write(part);
        } while ((header[1] & EndOfMessage) == 0);
        return (header[0], body.ToArray());
    }

    private static void Send(NetworkStream stream, byte[] tokens)
    {
        var packet = new byte[HeaderBytes + tokens.Length];
        packet[0] = Reply;
        packet[1] = EndOfMessage;
        BinaryPrimitives.WriteUInt16BigEndian(packet.AsSpan(2), (ushort)packet.Length);
        packet[6] = 1;
        tokens.CopyTo(packet, HeaderBytes);
        stream.Write(packet);
    }

    /// <summary>Version 16, no encryption at all (2), no instance, no MARS: each option is its number, its place and its length.</summary>
    private static byte[] PreloginAnswer() =>
    [
        0, 0, 21, 0, 6, 1, 0, 27, 0, 1, 2, 0, 28, 0, 1, 4, 0, 29, 0, 1, 0xFF,
        16, 0, 0, 0, 0, 0, 2, 0, 0,
    ];

    private static byte[] LoginAcknowledged()
    {
        byte[] body = [1, 0x74, 0, 0, 4, .. ShortText("lunette"), 16, 0, 0, 0];
        byte[] collation = [7, 5, 0x09, 0x04, 0xD0, 0x00, 0x34, 0]; // without one no text can be a parameter
        return [.. DatabaseChanged("shop", "master"), 0xE3, .. U16(collation.Length), .. collation, 0xAD, .. U16(body.Length), .. body];
    }

    private static byte[] DatabaseChanged(string now, string before)
    {
        byte[] body = [1, .. ShortText(now), .. ShortText(before)];
        return [0xE3, .. U16(body.Length), .. body];
    }

    /// <summary>Begin (5) gets a descriptor (8), commit (7) and rollback (8) give it back (9, 10).</summary>
    private static byte[] TransactionChanged(byte[] request)
    {
        int headers = BinaryPrimitives.ReadInt32LittleEndian(request);
        byte[] descriptor = [8, 1, 0, 0, 0, 0, 0, 0, 0];
        byte[] body = BinaryPrimitives.ReadUInt16LittleEndian(request.AsSpan(headers)) switch
        {
            5 => [8, .. descriptor, 0],
            7 => [9, 0, .. descriptor],
            8 => [10, 0, .. descriptor],
            var other => throw new InvalidDataException($"transaction request {other}"),
        };
        return [0xE3, .. U16(body.Length), .. body];
    }

    private byte[] Answer(byte[] request, byte done)
    {
        Interlocked.Increment(ref _statements);
        int headers = BinaryPrimitives.ReadInt32LittleEndian(request);
        // the text of a batch and that in a call of sp_executesql are both UTF-16 at an even place
        string text = Encoding.Unicode.GetString(request, headers, (request.Length - headers) & ~1);
        return text.Contains("fails", StringComparison.Ordinal) ? [.. Error(), .. Done(done, 0x02, 0)] : [.. OneRow(), .. Done(done, 0x10, 1)];
    }

    private byte[] Error()
    {
        byte[] body = [.. U32(208), 1, 16, .. U16(_error.Length), .. Encoding.Unicode.GetBytes(_error), .. ShortText("lunette"), .. ShortText(""), .. U32(1)];
        return [0xAA, .. U16(body.Length), .. body];
    }

    /// <summary>One column of four-byte numbers, one row with 1.</summary>
    private static byte[] OneRow() => [0x81, .. U16(1), .. U32(0), .. U16(0), 0x38, .. ShortText("n"), 0xD1, .. U32(1)];

    private static byte[] Done(byte token, ushort status, ulong rows)
    {
        var done = new byte[13];
        done[0] = token;
        BinaryPrimitives.WriteUInt16LittleEndian(done.AsSpan(1), status);
        done[3] = 0xC1; // the answer of a SELECT
        BinaryPrimitives.WriteUInt64LittleEndian(done.AsSpan(5), rows);
        return done;
    }

    private static byte[] ShortText(string text) => [(byte)text.Length, .. Encoding.Unicode.GetBytes(text)];
    private static byte[] U16(int value) => [(byte)value, (byte)(value >> 8)];
    private static byte[] U32(int value) => [.. U16(value), .. U16(value >> 16)];
}
