-- SPDX-License-Identifier: MIT
--- Checks what a client answered: an accepted form against its requestedSchema (a flat object of primitive kinds), a sampling or roots
--- result against its shape. What does not fit is asked for again, never passed to a tool. Pure.

local json = require("lunette.json")
local protocol = require("lunette.mcp.protocol")

local M = {}

local ACTIONS <const> = { accept = true, decline = true, cancel = true }
local MAX_TEXT <const> = 64 * 1024

local function choices(schema)
  local list = schema.oneOf or schema.anyOf
  if not list then return schema.enum end
  local values = {}
  for i, choice in ipairs(list) do values[i] = choice.const end
  return values
end

local function is_one_of(value, allowed)
  for _, item in ipairs(allowed) do
    if item == value then return true end
  end
  return false
end

local function text_fits(schema, value)
  if type(value) ~= "string" or #value > MAX_TEXT then return false end
  local n = utf8.len(value)
  if not n or n < (schema.minLength or 0) or n > (schema.maxLength or MAX_TEXT) then return false end
  local allowed = choices(schema)
  return not allowed or is_one_of(value, allowed)
end

local function number_fits(schema, value)
  if math.type(value) == nil then return false end
  if schema.type == "integer" and not math.tointeger(value) then return false end
  return value >= (schema.minimum or -math.huge) and value <= (schema.maximum or math.huge)
end

local function list_fits(schema, value)
  if not json.is_array(value) and next(value) ~= nil then return false end
  if #value < (schema.minItems or 0) or #value > (schema.maxItems or 256) then return false end
  local allowed = choices(schema.items or {})
  for _, item in ipairs(value) do
    if type(item) ~= "string" or (allowed and not is_one_of(item, allowed)) then return false end
  end
  return true
end

local function value_fits(schema, value)
  local kind = schema.type
  if kind == "string" then return text_fits(schema, value) end
  if kind == "number" or kind == "integer" then return number_fits(schema, value) end
  if kind == "boolean" then return type(value) == "boolean" end
  if kind == "array" then return type(value) == "table" and list_fits(schema, value) end
  return true
end

local function form_fits(schema, content)
  if not protocol.is_object(content) then return false end
  for _, name in ipairs(schema.required or {}) do
    if protocol.value(content[name]) == nil then return false end
  end
  for name, property in pairs(schema.properties or {}) do
    local value = protocol.value(content[name])
    if value ~= nil and not value_fits(property, value) then return false end
  end
  return true
end

local function elicitation_fits(params, answer)
  if not ACTIONS[answer.action] then return false end
  if answer.action ~= "accept" or params.mode == "url" then return true end
  return form_fits(params.requestedSchema or {}, answer.content)
end

--- True when the answer can be handed to the one who asked.
---@param request {method: string, params: table}
---@param answer any
function M.fits(request, answer)
  if not protocol.is_object(answer) then return false end
  if request.method == "elicitation/create" then return elicitation_fits(request.params, answer) end
  if request.method == "sampling/createMessage" then return type(answer.content) == "table" and type(answer.role) == "string" end
  if request.method == "roots/list" then return json.is_array(answer.roots) end
  return false
end

return M
