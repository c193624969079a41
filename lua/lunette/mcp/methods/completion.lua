-- SPDX-License-Identifier: MIT
--- completion/complete: suggestions for the arguments of prompts and the variables of resource templates.

local context = require("lunette.mcp.context")
local json = require("lunette.json")
local protocol = require("lunette.mcp.protocol")
local run = require("lunette.mcp.run")

local M = { modern = {}, legacy = {} }

local MAX_VALUES <const> = 100

-- The function that completes the argument; nil when there is none; nil, err for an unknown ref.
local function prompt_completer(S, ref, name)
  local def = type(ref.name) == "string" and S.registry.prompt(ref.name)
  if not def then return nil, protocol.invalid_params("Unknown prompt: " .. tostring(ref.name)) end
  for _, argument in ipairs(def.arguments or {}) do
    if argument.name == name then return argument.complete end
  end
  return nil
end

local function resource_completer(S, ref, name, principal)
  local uri = ref.uri
  if type(uri) ~= "string" then return nil, protocol.invalid_params("ref.uri must be a string") end
  local def = S.registry.template(uri) or S.registry.match_template(uri, principal)
  if def then return def.complete and def.complete[name] end
  if S.registry.resource(uri) then return nil end
  return nil, protocol.invalid_params("Unknown resource: " .. uri)
end

local function completer(S, call, ref, name)
  if ref.type == "ref/prompt" then return prompt_completer(S, ref, name) end
  if ref.type == "ref/resource" then return resource_completer(S, ref, name, call.principal) end
  return nil, protocol.invalid_params("ref.type must be ref/prompt or ref/resource")
end

local function pack(values)
  local out = json.array({})
  for i = 1, math.min(#values, MAX_VALUES) do out[i] = tostring(values[i]) end
  local more = #values > MAX_VALUES
  return { completion = { values = out, total = #values, hasMore = more } }
end

local function complete(S, call)
  local ref, argument = call.params.ref, call.params.argument
  if not protocol.is_object(ref) then return nil, protocol.invalid_params("params.ref must be an object") end
  if not protocol.is_object(argument) or type(argument.name) ~= "string" or type(argument.value) ~= "string" then
    return nil, protocol.invalid_params("params.argument must have the strings name and value")
  end
  local fn, err = completer(S, call, ref, argument.name)
  if err then return nil, err end
  if not fn then return pack({}) end
  local chosen = protocol.is_object(call.params.context) and call.params.context.arguments
  local ctx = context.new(call, context.ask_by_request)
  local kind, value = run.wait(call, ctx, fn, argument.value, protocol.is_object(chosen) and chosen or {})
  if kind == "cancelled" then return nil, run.CANCELLED end
  if kind == "thrown" then return nil, run.internal_error("completion of " .. argument.name, value) end
  return pack(kind == "result" and value or {})
end

M.modern["completion/complete"], M.legacy["completion/complete"] = complete, complete

return M
