-- SPDX-License-Identifier: MIT
--- The MCP layer's front: serve over HTTP, serve over standard input and output, or run one tool in this process.

local protocol = require("lunette.mcp.protocol")
local server = require("lunette.mcp.server")
local tool_methods = require("lunette.mcp.methods.tools")

local M = {}

local STDIO_PRINCIPAL <const> = { name = "stdio", is_root = true, scopes = { root = true } }
local CLI_PRINCIPAL <const> = { name = "cli", is_root = true, scopes = { root = true } }

-- One server a process: HTTP and stdio share its tasks and subscriptions.
local shared

local function the_server(opts)
  if not shared then shared = server.new(opts) end
  return shared
end

---@class HttpOptions
---@field address? string          numeric; default 127.0.0.1
---@field port? integer            0: any
---@field tls_cert? string         PEM texts, both or none
---@field tls_key? string
---@field auth { authenticate: fun(headers: table): table|nil, table? }   principal, or nil, {status, www_authenticate, message?}
---@field metrics? fun(headers: table): string|nil, table?               Prometheus text, or nil, {status, www_authenticate?, message?}
---@field allowed_origins? string[]  browsers of these origins get CORS headers
---@field allowed_hosts? string[]    beside loopback names
---@field server_info? table         Implementation: name, version, title?
---@field instructions? string

--- Serves Streamable HTTP, both eras, at /mcp; /health and /metrics beside it.
---@param opts HttpOptions
---@return table|nil listener     { port, close = fn() }
---@return table? err
function M.serve_http(opts)
  if not opts.auth then error("serve_http: 'auth' is required", 2) end
  return require("lunette.mcp.http").serve(the_server(opts), opts)
end

--- Serves standard input and output until the input ends. Waits.
---@param opts { server_info?: table, instructions?: string, principal?: table }
---@return true|nil
---@return table? err
function M.serve_stdio(opts)
  return require("lunette.mcp.stdio").serve(the_server(opts), opts.principal or STDIO_PRINCIPAL)
end

local function local_asker(opts)
  return function(_, requests)
    local results = {}
    for key, request in pairs(requests) do
      if request.method ~= "elicitation/create" then
        return nil, protocol.failure("NotSupported", "the command line has no " .. request.method)
      end
      local answer, err = opts.elicit(request.params, key)
      if not answer then return nil, err end
      results[key] = answer
    end
    return results
  end
end

--- Runs a tool in this process. Waits -> CallToolResult, or nil, err.
---@param name string
---@param arguments table
---@param opts? { principal?: table, on_progress?: fun(progress, total, message), on_log?: fun(level, data), elicit?: fun(params, key) }
function M.call_local(name, arguments, opts)
  opts = opts or {}
  local call = {
    id = 1, method = "tools/call", params = { name = name, arguments = arguments }, era = "modern", protocol = protocol.MODERN,
    principal = opts.principal or CLI_PRINCIPAL, transport = "cli", capabilities = opts.elicit and { elicitation = {} } or {},
    progress_token = opts.on_progress and 1 or nil, log_level = opts.on_log and "info" or nil,
  }
  function call.notify(_, method, params)
    if method == "notifications/progress" then opts.on_progress(params.progress, params.total, params.message) end
    if method == "notifications/message" then opts.on_log(params.level, params.data) end
    return true
  end
  return tool_methods.call_local(the_server({}), call, local_asker(opts))
end

--- Counters and gauges of the protocol layer, for /metrics.
---@return table<string, integer>
function M.stats()
  local out = { open_streams = require("lunette.mcp.sse").count(), stream_bytes = require("lunette.mcp.streams").total_bytes() }
  if not shared then return out end
  for k, v in pairs(shared.stats) do out[k] = v end
  out.tasks, out.tasks_active, out.listeners = shared.tasks.n, shared.tasks.n_active, shared.hub.n
  return out
end

return M
