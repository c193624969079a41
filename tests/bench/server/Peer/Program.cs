// SPDX-License-Identifier: MIT
// The peer of the server benchmark: ModelContextProtocol.AspNetCore listing exactly the tools of a given tools/list result.
// Usage: Peer URL TOOLS.json
using System.Text.Json;
using ModelContextProtocol;
using ModelContextProtocol.Protocol;

var tools = JsonSerializer.Deserialize<ListToolsResult>(File.ReadAllText(args[1]), McpJsonUtilities.DefaultOptions)!;
var builder = WebApplication.CreateSlimBuilder();
builder.Logging.ClearProviders();
builder.Services.AddMcpServer(o => o.ServerInfo = new Implementation { Name = "peer", Version = "1" })
    .WithHttpTransport(o => o.Stateless = true)
    .WithListToolsHandler((_, _) => ValueTask.FromResult(new ListToolsResult { Tools = tools.Tools }))
    .WithCallToolHandler((_, _) => ValueTask.FromResult(new CallToolResult()));
var app = builder.Build();
app.MapMcp("/mcp");
app.Urls.Add(args[0]);
await app.StartAsync();
Console.WriteLine("READY");
await app.WaitForShutdownAsync();
