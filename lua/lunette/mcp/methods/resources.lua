-- SPDX-License-Identifier: MIT
--- resources/list, resources/templates/list, resources/read, and the legacy subscriptions to single resources.

local context = require("lunette.mcp.context")
local json = require("lunette.json")
local lists = require("lunette.mcp.lists")
local mrtr = require("lunette.mcp.mrtr")
local protocol = require("lunette.mcp.protocol")
local run = require("lunette.mcp.run")
local tools = require("lunette.mcp.methods.tools")

local M = { modern = {}, legacy = {} }

local MAX_SUBSCRIPTIONS <const> = 256 -- of one legacy session

local function row_of(id_member)
  return function(def, call)
    local newest = call.protocol >= protocol.LEGACY_NEWEST
    return {
      [id_member] = def[id_member], name = def.name, title = call.protocol ~= "2025-03-26" and def.title or nil,
      description = def.description, mimeType = def.mimeType, size = def.size, annotations = def.annotations,
      icons = newest and def.icons or nil, _meta = def._meta,
    }
  end
end

local list = lists.method({
  member = "resources", key = "uri", row = row_of("uri"), list = function(registry, principal) return registry.resources(principal) end,
})
local list_templates = lists.method({
  member = "resourceTemplates", key = "uriTemplate", row = row_of("uriTemplate"),
  list = function(registry, principal) return registry.templates(principal) end,
})

local function not_found(call, uri, err)
  local message = err and err.message or "Resource not found"
  local code = call.era == "legacy" and protocol.LEGACY_RESOURCE_NOT_FOUND or protocol.INVALID_PARAMS
  return protocol.error(code, message, { uri = uri, kind = err and err.kind or nil })
end

-- The definition behind a URI, and its variables when it comes from a template.
local function find(S, call)
  local uri = call.params.uri
  if type(uri) ~= "string" then return nil, protocol.invalid_params("params.uri must be a string") end
  local def = S.registry.resource(uri)
  if def and S.registry.shows(def, call.principal) then return def end
  local template, vars = S.registry.match_template(uri, call.principal)
  if template then return template, vars end
  return nil, not_found(call, uri)
end

local function read_error(call, err)
  if type(err) ~= "table" then return protocol.error(protocol.INTERNAL_ERROR, tostring(err)) end
  if err.rpc_code then return err end
  local kind = tostring(err.kind)
  if kind:find("NotFound") or kind:find("Expired") or kind:find("Evicted") then return not_found(call, call.params.uri, err) end
  return protocol.error(protocol.INTERNAL_ERROR, err.message or kind, { uri = call.params.uri, kind = err.kind })
end

local function settle(S, call, ctx, kind, value)
  if kind == "cancelled" then return nil, run.CANCELLED end
  if kind == "pending" then return mrtr.input_required(call, S.sealer, ctx.pending, ctx.state, ctx.used) end
  if kind == "thrown" then return nil, run.internal_error("reading " .. call.params.uri, value) end
  if kind == "error" then return nil, read_error(call, value) end
  if next(value.contents or {}) == nil then return nil, not_found(call, call.params.uri) end
  local result = { contents = value.contents, _meta = value._meta }
  if call.era == "modern" then result.ttlMs, result.cacheScope = value.ttlMs or 0, value.cacheScope or "private" end
  return result
end

local function read(S, call)
  local def, vars = find(S, call)
  if not def then return nil, vars end
  local ctx, err
  if call.era == "modern" then
    ctx, err = tools.modern_context(S, call)
    if not ctx then return nil, err end
  else
    ctx = context.new(call, context.ask_by_request)
  end
  return settle(S, call, ctx, run.wait(call, ctx, def.read, call.params.uri, vars))
end

for _, methods in pairs(M) do
  methods["resources/list"], methods["resources/templates/list"], methods["resources/read"] = list, list_templates, read
end

M.legacy["resources/subscribe"] = function(S, call)
  local def, err = find(S, call)
  if not def then return nil, err end
  local session = call.session
  if not session.listener.uris[call.params.uri] then
    if session.n_uris >= MAX_SUBSCRIPTIONS then return nil, protocol.error(protocol.INTERNAL_ERROR, "too many subscriptions") end
    session.listener.uris[call.params.uri], session.n_uris = true, session.n_uris + 1
  end
  return json.raw("{}")
end

M.legacy["resources/unsubscribe"] = function(_, call)
  local uri, session = call.params.uri, call.session
  if type(uri) ~= "string" then return nil, protocol.invalid_params("params.uri must be a string") end
  if session.listener.uris[uri] then session.listener.uris[uri], session.n_uris = nil, session.n_uris - 1 end
  return json.raw("{}")
end

return M
