-- SPDX-License-Identifier: MIT
--- prompts/list and prompts/get.

local context = require("lunette.mcp.context")
local json = require("lunette.json")
local lists = require("lunette.mcp.lists")
local mrtr = require("lunette.mcp.mrtr")
local protocol = require("lunette.mcp.protocol")
local run = require("lunette.mcp.run")
local tools = require("lunette.mcp.methods.tools")

local M = { modern = {}, legacy = {} }

local function argument_rows(def, titled)
  if not def.arguments or #def.arguments == 0 then return nil end
  local rows = json.array({})
  for i, argument in ipairs(def.arguments) do
    rows[i] = {
      name = argument.name, title = titled and argument.title or nil, description = argument.description, required = argument.required,
    }
  end
  return rows
end

local function row(def, call)
  local titled = call.protocol ~= "2025-03-26"
  return {
    name = def.name, title = titled and def.title or nil, description = def.description, arguments = argument_rows(def, titled),
    icons = call.protocol >= protocol.LEGACY_NEWEST and def.icons or nil, _meta = def._meta,
  }
end

local list = lists.method({
  member = "prompts", key = "name", row = row, list = function(registry, principal) return registry.prompts(principal) end,
})

-- The arguments as given, all strings, the required ones there.
local function check_arguments(def, given)
  if given == nil or given == json.null then given = {} end
  if not protocol.is_object(given) then return nil, protocol.invalid_params("params.arguments must be an object") end
  for name, value in pairs(given) do
    if type(value) ~= "string" then return nil, protocol.invalid_params("argument '" .. name .. "' must be a string") end
  end
  for _, argument in ipairs(def.arguments or {}) do
    if argument.required and given[argument.name] == nil then
      return nil, protocol.invalid_params("argument '" .. argument.name .. "' is required")
    end
  end
  return given
end

local function settle(S, call, ctx, kind, value)
  if kind == "cancelled" then return nil, run.CANCELLED end
  if kind == "pending" then return mrtr.input_required(call, S.sealer, ctx.pending, ctx.state, ctx.used) end
  if kind == "thrown" then return nil, run.internal_error("prompt " .. call.params.name, value) end
  if kind == "result" then return { description = value.description, messages = json.array(value.messages), _meta = value._meta } end
  if type(value) == "table" and value.rpc_code then return nil, value end
  return nil, protocol.invalid_params(type(value) == "table" and value.message or tostring(value))
end

local function get(S, call)
  local name = call.params.name
  if type(name) ~= "string" then return nil, protocol.invalid_params("params.name must be a string") end
  local def = S.registry.prompt(name)
  if not def or not S.registry.shows(def, call.principal) then return nil, protocol.invalid_params("Unknown prompt: " .. name) end
  local arguments, err = check_arguments(def, call.params.arguments)
  if not arguments then return nil, err end
  local ctx
  if call.era == "modern" then
    ctx, err = tools.modern_context(S, call)
    if not ctx then return nil, err end
  else
    ctx = context.new(call, context.ask_by_request)
  end
  return settle(S, call, ctx, run.wait(call, ctx, def.get, arguments))
end

for _, methods in pairs(M) do
  methods["prompts/list"], methods["prompts/get"] = list, get
end

return M
