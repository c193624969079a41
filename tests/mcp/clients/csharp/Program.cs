// SPDX-License-Identifier: MIT
// The C# SDK as a client: lists tools and calls one. usage: csharp http URL | stdio COMMAND ARGUMENT...
// Environment: TOOL, TOOL_ARGS (JSON), EXPECT (a regular expression), TOKEN, CLIENT_VERSION (a protocol version to insist on).
using System.Text.Json;
using System.Text.RegularExpressions;
using ModelContextProtocol.Client;
using ModelContextProtocol.Protocol;

static string Setting(string name, string otherwise) =>
    Environment.GetEnvironmentVariable(name) is { Length: > 0 } value ? value : otherwise;

var tool = Setting("TOOL", "greet");
var arguments = JsonSerializer.Deserialize<Dictionary<string, JsonElement>>(Setting("TOOL_ARGS", "{\"name\":\"Ada\"}"))!
    .ToDictionary(pair => pair.Key, pair => (object?)pair.Value);
var expected = new Regex(Setting("EXPECT", "Hello, Ada!"));

IClientTransport transport = args[0] == "http"
    ? new HttpClientTransport(new HttpClientTransportOptions
    {
        Endpoint = new Uri(args[1]),
        TransportMode = HttpTransportMode.StreamableHttp,
        AdditionalHeaders = new Dictionary<string, string> { ["Authorization"] = "Bearer " + Setting("TOKEN", "none") },
    })
    : new StdioClientTransport(new StdioClientTransportOptions { Name = "lunette", Command = args[1], Arguments = args[2..] });

var options = new McpClientOptions { ClientInfo = new Implementation { Name = "lunette-test-csharp", Version = "1" } };
if (Environment.GetEnvironmentVariable("CLIENT_VERSION") is { Length: > 0 } version) options.ProtocolVersion = version;

await using var client = await McpClient.CreateAsync(transport, options);
var tools = await client.ListToolsAsync();
if (!tools.Any(t => t.Name == tool)) throw new InvalidOperationException($"{tool} is not listed");
var prompts = await client.ListPromptsAsync();
var result = await client.CallToolAsync(tool, arguments);
var text = string.Concat(result.Content.OfType<TextContentBlock>().Select(block => block.Text)) + result.StructuredContent?.ToString();
if (result.IsError == true || !expected.IsMatch(text)) throw new InvalidOperationException($"unexpected answer: {text}");
Console.WriteLine($"C# SDK, {args[0]}, {client.NegotiatedProtocolVersion}: {tools.Count} tools, {prompts.Count} prompts; {tool} answered");
