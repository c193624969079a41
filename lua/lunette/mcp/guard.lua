-- SPDX-License-Identifier: MIT
--- What stands before the endpoint: Host and Origin (DNS rebinding, browsers), CORS for configured origins, the bearer hook.

local json = require("lunette.json")
local protocol = require("lunette.mcp.protocol")

local M = {}

local MAX_MEMO <const> = 64
local LOOPBACK <const> = { ["localhost"] = true, ["127.0.0.1"] = true, ["[::1]"] = true }
local CORS_ALLOW <const> = "Content-Type, Accept, Authorization, MCP-Protocol-Version, Mcp-Method, Mcp-Name, Mcp-Session-Id, Last-Event-ID"

---@class Guard
local Guard = {}
Guard.__index = Guard

local function set_of(list)
  local set = {}
  for _, item in ipairs(list or {}) do set[item:lower()] = true end
  return set
end

--- True for an address that only this machine can reach.
function M.is_loopback(address)
  return address == nil or address == "localhost" or address == "::1" or address == "[::1]" or address:find("^127%.") ~= nil
end

--- A guard for a server that listens on `address`.
---@param opts { address?: string, allowed_origins?: string[], allowed_hosts?: string[], auth?: table }
function M.new(opts)
  return setmetatable({
    loopback = M.is_loopback(opts.address), origins = set_of(opts.allowed_origins), hosts = set_of(opts.allowed_hosts),
    checks_hosts = M.is_loopback(opts.address) or (opts.allowed_hosts and #opts.allowed_hosts > 0), auth = opts.auth,
    memo = {}, n_memo = 0,
  }, Guard)
end

local function without_port(host) return (host:gsub(":%d+$", "")) end

local function host_allowed(guard, host)
  if not guard.checks_hosts then return true end
  host = host:lower()
  local name = without_port(host)
  if guard.hosts[host] or guard.hosts[name] then return true end
  return guard.loopback and LOOPBACK[name] == true
end

local function origin_allowed(guard, origin)
  origin = origin:lower()
  if guard.origins[origin] then return true end
  local host = origin:match("^https?://([^/]+)$")
  return host ~= nil and guard.loopback and LOOPBACK[without_port(host)] == true
end

local function remembered(guard, prefix, value, check)
  local key = prefix .. value
  local known = guard.memo[key]
  if known == nil then
    known = check(guard, value)
    if guard.n_memo >= MAX_MEMO then guard.memo, guard.n_memo = {}, 0 end
    guard.memo[key], guard.n_memo = known, guard.n_memo + 1
  end
  return known
end

--- May this request come in at all? true, or nil and why not.
function Guard:check(headers)
  local host = headers.host
  if not host then
    if self.checks_hosts then return nil, "the Host header is missing" end
  elseif not remembered(self, "h", host, host_allowed) then
    return nil, "this Host is not served here"
  end
  local origin = headers.origin
  if origin and not remembered(self, "o", origin, origin_allowed) then return nil, "this Origin is not allowed" end
  return true
end

--- Headers for the browser of a configured origin; nil for everyone else.
function Guard:cors(headers)
  local origin = headers.origin
  if not origin or not self.origins[origin:lower()] then return nil end
  return {
    ["Access-Control-Allow-Origin"] = origin, ["Access-Control-Expose-Headers"] = "Mcp-Session-Id, WWW-Authenticate", Vary = "Origin",
  }
end

--- Headers that answer a preflight of a configured origin; nil for everyone else. The parameters that clients mirror are named one by one.
function Guard:preflight(headers)
  local cors = self:cors(headers)
  if not cors then return nil end
  local asked = {}
  for name in (headers["access-control-request-headers"] or ""):gmatch("[^,%s]+") do
    if name:lower():find("^mcp%-param%-[%w_-]+$") then asked[#asked + 1] = name end
  end
  cors["Access-Control-Allow-Methods"] = "POST, GET, DELETE"
  cors["Access-Control-Allow-Headers"] = CORS_ALLOW .. (#asked > 0 and ", " .. table.concat(asked, ", ") or "")
  cors["Access-Control-Max-Age"] = "600"
  return cors
end

--- Who asks: a principal, or nil and {status, www_authenticate}.
function Guard:authenticate(headers)
  return self.auth.authenticate(headers)
end

--- A refusal outside JSON-RPC as a body: no id, since nothing was read.
function M.refusal(message) return protocol.error_text(nil, protocol.error(protocol.LEGACY_TRANSPORT, message)) end

--- A small JSON object for answers that are no JSON-RPC.
function M.note(key, value) return json.encode({ [key] = value }) end

return M
