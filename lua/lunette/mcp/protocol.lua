-- SPDX-License-Identifier: MIT
--- Names and numbers of the Model Context Protocol: revisions, error codes, `_meta` keys, and the records that go out (an error, a
--- response). Nothing here waits or keeps state.

local json = require("lunette.json")

local M = {}

M.MODERN = "2026-07-28"
M.LEGACY_NEWEST = "2025-11-25"
M.SUPPORTED = json.array({ "2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26" })
M.is_modern = { ["2026-07-28"] = true }
M.is_legacy = { ["2025-11-25"] = true, ["2025-06-18"] = true, ["2025-03-26"] = true }

M.TASKS_EXTENSION = "io.modelcontextprotocol/tasks"
M.META = {
  RELATED_TASK = "io.modelcontextprotocol/related-task",
  VERSION = "io.modelcontextprotocol/protocolVersion",
  CAPABILITIES = "io.modelcontextprotocol/clientCapabilities",
  CLIENT = "io.modelcontextprotocol/clientInfo",
  LOG_LEVEL = "io.modelcontextprotocol/logLevel",
  SERVER = "io.modelcontextprotocol/serverInfo",
  SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId",
}

M.PARSE_ERROR = -32700
M.INVALID_REQUEST = -32600
M.METHOD_NOT_FOUND = -32601
M.INVALID_PARAMS = -32602
M.INTERNAL_ERROR = -32603
M.HEADER_MISMATCH = -32020
M.MISSING_CAPABILITY = -32021
M.UNSUPPORTED_VERSION = -32022
M.LEGACY_RESOURCE_NOT_FOUND = -32002
M.LEGACY_TRANSPORT = -32000
M.LEGACY_NO_SESSION = -32001

--- Log levels by severity.
M.LOG_LEVELS = { debug = 1, info = 2, notice = 3, warning = 4, error = 5, critical = 6, alert = 7, emergency = 8 }

-- The HTTP status of a modern error whose maker did not say another.
local MODERN_STATUS <const> = {
  [M.PARSE_ERROR] = 400, [M.INVALID_REQUEST] = 400, [M.METHOD_NOT_FOUND] = 404,
  [M.HEADER_MISMATCH] = 400, [M.MISSING_CAPABILITY] = 400, [M.UNSUPPORTED_VERSION] = 400,
}

local FAILURE_META <const> = { __tostring = function(e) return e.kind .. ": " .. e.message end }

--- A failure that is no JSON-RPC error: a tool's answer says it with isError.
function M.failure(kind, message) return setmetatable({ kind = kind, message = message }, FAILURE_META) end

local ERROR_META <const> = { __tostring = function(e) return e.message .. " (" .. e.rpc_code .. ")" end }

---@class RpcError
---@field rpc_code integer
---@field message string
---@field rpc_data? any
---@field http? integer     status that the maker insists on

--- A JSON-RPC error as a value. `http` is the status for a response that has not begun.
---@return RpcError
function M.error(code, message, data, http)
  return setmetatable({ rpc_code = code, message = message, rpc_data = data, http = http }, ERROR_META)
end

--- Wrong content of params: answered in-band (HTTP 200) in both eras.
function M.invalid_params(message, data) return M.error(M.INVALID_PARAMS, message, data) end

--- A capability that the request did not declare; `required` is a ClientCapabilities object.
function M.missing_capability(required)
  local name = next(required) or "?"
  return M.error(M.MISSING_CAPABILITY, "the client must declare the capability '" .. name .. "' for this request",
    { requiredCapabilities = required })
end

--- The HTTP status that goes with an error.
function M.http_status(err, era)
  if err.http then return err.http end
  if era == "modern" then return MODERN_STATUS[err.rpc_code] or 200 end
  return 200
end

--- The id as JSON text; integers stay integers, strings strings.
function M.id_text(id)
  if math.type(id) == "integer" then return tostring(id) end
  return json.encode(id)
end

--- What stands before and behind the id in the response of a result; result_text is JSON already.
function M.result_parts(result_text) return '{"jsonrpc":"2.0","id":', ',"result":' .. result_text .. "}" end

--- A result response as text.
function M.result_text(id, result_text)
  local head, tail = M.result_parts(result_text)
  return head .. M.id_text(id) .. tail
end

--- An error response as text. Without an id (the request's could not be read) the member is left out.
function M.error_text(id, err)
  local body = { code = err.rpc_code, message = err.message, data = err.rpc_data }
  local head = id == nil and '{"jsonrpc":"2.0","error":' or '{"jsonrpc":"2.0","id":' .. M.id_text(id) .. ',"error":'
  return head .. json.encode(body) .. "}"
end

--- A notification as text.
function M.notification_text(method, params)
  return '{"jsonrpc":"2.0","method":' .. json.encode(method) .. ',"params":' .. json.encode(params) .. "}"
end

--- A request of the server as text.
function M.request_text(id, method, params)
  return '{"jsonrpc":"2.0","id":' .. M.id_text(id) .. ',"method":' .. json.encode(method) .. ',"params":' .. json.encode(params) .. "}"
end

--- A JSON object as Lua sees it: a table that is not an array.
function M.is_object(v)
  return type(v) == "table" and v ~= json.null and not json.is_array(v)
end

--- The value, or nil where it is absent or null.
function M.value(v)
  if v == json.null then return nil end
  return v
end

return M
