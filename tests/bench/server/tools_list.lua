-- SPDX-License-Identifier: MIT
-- The request that wrk repeats: tools/list of the newest protocol revision.
wrk.method = "POST"
wrk.headers = {
  ["Content-Type"] = "application/json",
  ["Accept"] = "application/json, text/event-stream",
  ["MCP-Protocol-Version"] = "2026-07-28",
  ["Mcp-Method"] = "tools/list",
  ["Authorization"] = "Bearer " .. (os.getenv("MCP_BEARER_TOKEN") or ""),
}
wrk.body = '{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",'
  .. '"io.modelcontextprotocol/clientCapabilities":{}}}}'

function done(summary, latency)
  local errors = summary.errors.status + summary.errors.read + summary.errors.write + summary.errors.timeout + summary.errors.connect
  io.write(("RESULT %.0f %.3f %d\n"):format(summary.requests / (summary.duration / 1e6), latency:percentile(99) / 1000, errors))
end
