-- SPDX-License-Identifier: MIT
--- The HTTP header rules of the modern era: trimming, the Base64 sentinel, `Mcp-Method`, `Mcp-Name` and `Mcp-Param-*` against the body;
--- and what `Accept` and `Content-Type` allow. Pure.

local crypto = require("lunette.crypto")
local json = require("lunette.json")
local protocol = require("lunette.mcp.protocol")

local M = {}

-- Which member of params the Mcp-Name header repeats.
local NAME_MEMBER <const> = {
  ["tools/call"] = "name", ["prompts/get"] = "name", ["resources/read"] = "uri",
  ["tasks/get"] = "taskId", ["tasks/update"] = "taskId", ["tasks/cancel"] = "taskId",
}

local function mismatch(why) return nil, protocol.error(protocol.HEADER_MISMATCH, why) end

--- A header value without surrounding blanks; nil stays nil.
function M.trim(value)
  if not value then return nil end
  return (value:match("^[ \t]*(.-)[ \t]*$"))
end

--- Decodes `=?base64?…?=`; any other text is itself. nil when the text inside the markers is no canonical Base64 of UTF-8.
---@param value string
---@return string|nil text
function M.decode_sentinel(value)
  local inner = value:match("^=%?base64%?(.*)%?=$")
  if not inner then return value end
  local text = crypto.unbase64(inner)
  if not text or not utf8.len(text) or crypto.base64(text) ~= inner then return nil end
  return text
end

local function check_name(method, params, headers)
  local member = NAME_MEMBER[method]
  if not member then return true end
  local raw = M.trim(headers["mcp-name"])
  if not raw then return mismatch("header Mcp-Name is missing") end
  local name = M.decode_sentinel(raw)
  if not name then return mismatch("header Mcp-Name holds bad Base64") end
  if type(params[member]) ~= "string" or name ~= params[member] then
    return mismatch("header Mcp-Name differs from params." .. member)
  end
  return true
end

--- Mcp-Method and Mcp-Name against the body.
function M.check_standard(method, params, headers)
  local named = M.trim(headers["mcp-method"])
  if not named then return mismatch("header Mcp-Method is missing") end
  if named ~= method then return mismatch("header Mcp-Method differs from the body's method") end
  return check_name(method, params, headers)
end

local function argument_at(arguments, path)
  local value = arguments
  for _, key in ipairs(path) do
    if not protocol.is_object(value) then return nil end
    value = value[key]
  end
  return protocol.value(value)
end

local function equals(kind, text, value)
  if kind == "integer" then return math.type(value) ~= nil and tonumber(text) == value and not text:find("[xXnN]") end
  if kind == "boolean" then return type(value) == "boolean" and text == tostring(value) end
  return text == value
end

--- Mcp-Param-* of a tool call against its arguments.
---@param mirrored ParamHeader[]
function M.check_params(mirrored, arguments, headers)
  for _, item in ipairs(mirrored) do
    local value, raw = argument_at(arguments, item.path), M.trim(headers[item.field])
    local title = "header Mcp-Param-" .. item.header
    if value ~= nil and not raw then return mismatch(title .. " is missing") end
    if value == nil and raw then return mismatch(title .. " is given, but its argument is not") end
    if raw then
      local text = M.decode_sentinel(raw)
      if not text then return mismatch(title .. " holds bad Base64") end
      if not equals(item.kind, text, value) then return mismatch(title .. " differs from its argument") end
    end
  end
  return true
end

-- Memo of Accept headers: clients send the same few for ever.
local accepts, n_accepts = {}, 0
local MAX_MEMO <const> = 64

local function parse_accept(value)
  local found = { json = false, sse = false }
  for part in value:lower():gmatch("[^,]+") do
    local kind = part:match("^%s*([^%s;]+)")
    local q = part:match(";%s*q=([%d.]+)")
    if kind and tonumber(q or 1) ~= 0 then
      if kind == "*/*" or kind == "application/*" or kind == "application/json" then found.json = true end
      if kind == "*/*" or kind == "text/*" or kind == "text/event-stream" then found.sse = true end
    end
  end
  return found
end

--- What an Accept header takes; an absent one takes all.
---@return {json: boolean, sse: boolean}
function M.accept(value)
  value = value or "*/*"
  local found = accepts[value]
  if not found then
    found = parse_accept(value)
    if n_accepts >= MAX_MEMO then accepts, n_accepts = {}, 0 end
    accepts[value], n_accepts = found, n_accepts + 1
  end
  return found
end

--- True for `application/json`, with or without parameters.
function M.is_json(content_type)
  if content_type == "application/json" then return true end
  return content_type ~= nil and content_type:lower():match("^%s*([^%s;]+)") == "application/json"
end

--- The body as a value; a body that is not JSON is a parse error.
function M.decode_body(body)
  local message = json.decode(body or "")
  if message == nil then return nil, protocol.error(protocol.PARSE_ERROR, "the body is not JSON", nil, 400) end
  return message
end

return M
