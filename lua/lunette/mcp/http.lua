-- SPDX-License-Identifier: MIT
--- Streamable HTTP of both eras on one endpoint: routes, checks in the order that clients rely on, and hands over to the modern or the
--- legacy side.

local era = require("lunette.mcp.era")
local guard = require("lunette.mcp.guard")
local headers_of = require("lunette.mcp.headers")
local http = require("lunette.http")
local json = require("lunette.json")
local legacy = require("lunette.mcp.http_legacy")
local loop = require("lunette.loop")
local modern = require("lunette.mcp.http_modern")
local protocol = require("lunette.mcp.protocol")
local reply = require("lunette.mcp.reply")
local sessions = require("lunette.mcp.sessions")

local M = {}

M.PATH = "/mcp"
M.MAX_BODY = 4 * 1024 * 1024
local FLUSH_MS <const> = 50 -- between the last words of all streams and the end of the connections

---@class HttpEndpoint
local Endpoint = {}
Endpoint.__index = Endpoint

local JSON <const> = reply.JSON_HEADERS
local with = reply.headers_with

local function refuse(req, status, message, extra)
  req:respond(status, with(extra, JSON), guard.refusal(message))
end

--- Answers with a JSON-RPC error.
local function fail(x, id, err, e)
  x.req:respond(protocol.http_status(err, e or "modern"), with(x.cors, JSON), protocol.error_text(id, err))
end

-- ---- authentication -------------------------------------------------------------------------------------------------------------------

local function authenticate(endpoint, x)
  local principal, denied = endpoint.guard:authenticate(x.headers)
  if principal then return principal end
  local status = denied.status or 401
  local extra = { ["WWW-Authenticate"] = denied.www_authenticate or "Bearer" }
  if status == 401 or denied.www_authenticate then extra = with(x.cors, extra) else extra = x.cors end
  refuse(x.req, status, denied.message or "a bearer token is needed: Authorization: Bearer TOKEN", extra)
  return nil
end

-- ---- POST -----------------------------------------------------------------------------------------------------------------------------

local function content_problem(x)
  if not headers_of.is_json(x.headers["content-type"]) then return 415, "Content-Type must be application/json" end
  x.accept = headers_of.accept(x.headers.accept)
  if not x.accept.json or not x.accept.sse then return 406, "Accept must list application/json and text/event-stream" end
  if #x.req.body > M.MAX_BODY then return 413, "the body is larger than 4 MiB" end
  return nil
end

local function post_message(endpoint, x, message)
  local kind, id, bad_id = era.shape(message)
  if not kind then return fail(x, bad_id, id) end
  x.kind, x.id, x.message = kind, id, message
  x.version = headers_of.trim(x.headers["mcp-protocol-version"])
  if kind == "response" then
    if x.version and protocol.is_modern[x.version] then
      return fail(x, nil, protocol.error(protocol.INVALID_REQUEST, "clients of this revision send no responses", nil, 400))
    end
    return legacy.post(endpoint, x)
  end
  local which, err = era.classify(message, x.version, true)
  if not which then return fail(x, id, err) end
  if which == "modern" then return modern.post(endpoint, x) end
  return legacy.post(endpoint, x)
end

local function post(endpoint, x)
  local status, why = content_problem(x)
  if status then return refuse(x.req, status, why, x.cors) end
  local message, err = headers_of.decode_body(x.req.body)
  if message == nil then return fail(x, nil, err) end
  if json.is_array(message) then return legacy.post_batch(endpoint, x, message) end
  return post_message(endpoint, x, message)
end

-- ---- routes ---------------------------------------------------------------------------------------------------------------------------

local function not_allowed(x, allow)
  refuse(x.req, 405, "method not allowed", with(x.cors, { Allow = allow }))
end

local function mcp(endpoint, x)
  local method = x.req.method
  if method == "OPTIONS" then
    local preflight = endpoint.guard:preflight(x.headers)
    if preflight then return x.req:respond(204, preflight) end
    return not_allowed(x, "POST")
  end
  local principal = authenticate(endpoint, x)
  if not principal then return nil end
  x.principal = principal
  if method == "POST" then return post(endpoint, x) end
  -- Old clients that look for the transport of 2024 come without a session: 405 ends their search.
  local is_modern = protocol.is_modern[headers_of.trim(x.headers["mcp-protocol-version"]) or ""]
  if is_modern or not x.headers["mcp-session-id"] then return not_allowed(x, "POST") end
  if method == "GET" then return legacy.get(endpoint, x) end
  if method == "DELETE" then return legacy.delete(endpoint, x) end
  return not_allowed(x, "POST, GET, DELETE")
end

local function health(_, x)
  if x.req.method ~= "GET" and x.req.method ~= "HEAD" then return not_allowed(x, "GET") end
  return x.req:respond(200, with(x.cors, JSON), guard.note("status", "ok"))
end

local function metrics(endpoint, x)
  if not endpoint.metrics then return refuse(x.req, 404, "not found", x.cors) end
  if x.req.method ~= "GET" then return not_allowed(x, "GET") end
  local text, denied = endpoint.metrics(x.headers)
  if text then return x.req:respond(200, with(x.cors, { ["Content-Type"] = "text/plain; version=0.0.4; charset=utf-8" }), text) end
  local extra = denied.www_authenticate and with(x.cors, { ["WWW-Authenticate"] = denied.www_authenticate }) or x.cors
  return refuse(x.req, denied.status or 403, denied.message or "not allowed", extra)
end

local ROUTES <const> = { [M.PATH] = mcp, [M.PATH .. "/"] = mcp, ["/health"] = health, ["/metrics"] = metrics }

--- Handles one request of the transport.
function Endpoint:handle(req)
  local x = { req = req, headers = req.headers }
  local ok, why = self.guard:check(x.headers)
  if not ok then return refuse(req, 403, why) end
  if x.headers.origin then x.cors = self.guard:cors(x.headers) end
  local route = ROUTES[req.path]
  if not route then return req:respond(404, with(x.cors, JSON), guard.note("error", "not found")) end
  return route(self, x)
end

--- An endpoint for a server, without a socket.
---@param S McpServer
---@param opts table    of serve_http
function M.endpoint(S, opts)
  return setmetatable({ server = S, guard = guard.new(opts), sessions = sessions.new_store(), metrics = opts.metrics }, Endpoint)
end

--- Ends all sessions and their streams.
function Endpoint:close() self.sessions:close() end

--- Listens until close(), or until the calling task ends. -> { port, close() }, or nil, err.
---@param S McpServer
---@param opts { address?: string, port?: integer, tls_cert?: string, tls_key?: string, auth: table, metrics?: function }
function M.serve(S, opts)
  local endpoint = M.endpoint(S, opts)
  local listener, err = http.listen({
    address = opts.address, port = opts.port, tls_cert = opts.tls_cert, tls_key = opts.tls_key, max_body = M.MAX_BODY,
    on_request = function(req) return endpoint:handle(req) end,
  })
  if not listener then return nil, err end
  S.registry.on_change(function() listener:forget() end)
  local function close()
    endpoint:close()
    S:close()
    loop.spawn(function() -- what was written last gets a moment to leave
      loop.sleep_ms(FLUSH_MS)
      listener:close()
    end)
  end
  if loop.current() then loop.on_cleanup(close) end
  return { port = listener.port, close = close, endpoint = endpoint }
end

return M
