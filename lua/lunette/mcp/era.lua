-- SPDX-License-Identifier: MIT
--- Tells modern from legacy traffic and checks what must hold before a method is looked up: the JSON-RPC shape, the version claims in
--- header and body, the modern envelope. Pure; the HTTP and the stdio transport share it (stdio has no headers).

local json = require("lunette.json")
local protocol = require("lunette.mcp.protocol")

local META <const> = protocol.META

local M = {}

local function usable_id(id)
  if type(id) == "string" then return id end
  if type(id) == "number" then return math.tointeger(id) end
  return nil
end

--- What a decoded JSON-RPC object is: "request", "notification" or "response", and its id; nil, err when it is none.
---@return string|nil kind
---@return any id_or_err
function M.shape(message)
  if not protocol.is_object(message) then return nil, protocol.error(protocol.INVALID_REQUEST, "not a JSON-RPC object", nil, 400) end
  if message.params == json.null then message.params = nil end -- some clients write it so
  local id = usable_id(message.id)
  local function bad(why) return nil, protocol.error(protocol.INVALID_REQUEST, why, nil, 400), id end
  if message.jsonrpc ~= "2.0" then return bad("member 'jsonrpc' must be \"2.0\"") end
  if message.method == nil then
    if message.id ~= nil and (message.result ~= nil or message.error ~= nil) then return "response", id end
    return bad("neither a request, a notification nor a response")
  end
  if type(message.method) ~= "string" then return bad("member 'method' must be a string") end
  if message.id ~= nil and id == nil then return bad("member 'id' must be a string or an integer") end
  if message.params ~= nil and not protocol.is_object(message.params) then
    return nil, protocol.error(protocol.INVALID_PARAMS, "member 'params' must be an object", nil, 400), id
  end
  return message.id == nil and "notification" or "request", id
end

local function envelope_error(key, why)
  return protocol.error(protocol.INVALID_PARAMS, "params._meta[\"" .. key .. "\"] " .. why, nil, 400)
end

local function check_envelope(meta)
  local version = meta[META.VERSION]
  if type(version) ~= "string" then
    return nil, envelope_error(META.VERSION, version == nil and "is required" or "must be a string")
  end
  local capabilities = meta[META.CAPABILITIES]
  if not protocol.is_object(capabilities) then
    return nil, envelope_error(META.CAPABILITIES, capabilities == nil and "is required" or "must be an object")
  end
  local client = meta[META.CLIENT]
  if client ~= nil and not protocol.is_object(client) then return nil, envelope_error(META.CLIENT, "must be an object") end
  local level = meta[META.LOG_LEVEL]
  if level ~= nil and not protocol.LOG_LEVELS[level] then return nil, envelope_error(META.LOG_LEVEL, "is no log level") end
  local token = meta.progressToken
  if token ~= nil and type(token) ~= "string" and math.type(token) ~= "integer" then
    return nil, envelope_error("progressToken", "must be a string or an integer")
  end
  return true
end

local function unsupported(version)
  return protocol.error(protocol.UNSUPPORTED_VERSION, "unsupported protocol version",
    { supported = protocol.SUPPORTED, requested = version })
end

local function check_modern(meta, header, over_http)
  local claim = meta[META.VERSION]
  if over_http and type(claim) == "string" and header ~= claim then
    local what = header == nil and "is missing" or "differs from params._meta"
    return nil, protocol.error(protocol.HEADER_MISMATCH, "header MCP-Protocol-Version " .. what)
  end
  local ok, err = check_envelope(meta)
  if not ok then return nil, err end
  if not protocol.is_modern[claim] then return nil, unsupported(claim) end
  return "modern"
end

--- The era of a request or notification of good shape.
---@param message table
---@param header string|nil       MCP-Protocol-Version, trimmed
---@param over_http boolean
---@return "modern"|"legacy"|nil era
---@return table? err   RpcError of the modern kind, or of legacy kind when the header names no revision that is served
function M.classify(message, header, over_http)
  local meta = message.params and message.params._meta
  if meta ~= nil and not protocol.is_object(meta) then
    return nil, protocol.error(protocol.INVALID_PARAMS, "params._meta must be an object", nil, 400)
  end
  if meta and (meta[META.VERSION] ~= nil or meta[META.CAPABILITIES] ~= nil) then return check_modern(meta, header, over_http) end
  if message.method == "initialize" then return "legacy" end
  if header and protocol.is_modern[header] then
    if message.id == nil then return "modern" end
    return nil, envelope_error(META.VERSION, "is required")
  end
  if header and not protocol.is_legacy[header] then
    return nil, protocol.error(protocol.LEGACY_TRANSPORT, "unsupported MCP-Protocol-Version: " .. header, nil, 400)
  end
  return "legacy"
end

return M
