-- SPDX-License-Identifier: MIT
--- The answers of the list methods, kept as text: a list depends on the revision of the registry, the protocol, who asks and the cursor,
--- and on nothing else.

local atomic = require("lunette.atomic")
local json = require("lunette.json")
local pagination = require("lunette.mcp.pagination")

local M = {}

local MAX_TEXTS <const> = 128   -- answers kept; then all are dropped
local LIST_TTL_MS <const> = 60000

-- The part of a principal that lists may depend on, kept as long as the principal's table lives.
local keys = setmetatable({}, { __mode = "k" })

local function principal_key(principal)
  local key = keys[principal]
  if key then return key end
  local scopes = {}
  for scope, has in pairs(principal.scopes or {}) do
    scopes[#scopes + 1] = type(scope) == "string" and has and scope or tostring(has)
  end
  table.sort(scopes)
  key = principal.name .. "\1" .. tostring(principal.is_root) .. "\1" .. table.concat(scopes, "\2")
  keys[principal] = key
  return key
end

local function build(S, call, spec, cursor)
  local list = spec.list(S.registry, call.principal)
  local page, next_cursor = pagination.page(list, spec.key, spec.member, cursor, S.page_size)
  if not page then return nil, next_cursor end
  local rows, is_private = json.array({}), false
  for i, def in ipairs(page) do
    rows[i] = spec.row(def, call)
    is_private = is_private or type(def.meta) == "function" or def.visible ~= nil
  end
  local result = { [spec.member] = rows, nextCursor = next_cursor }
  if call.era == "modern" then
    result.ttlMs, result.cacheScope = LIST_TTL_MS, is_private and "private" or "public"
  end
  return S:encode(call, result)
end

-- Keeps a text, unless the registry changed while it was made.
local keep = atomic(function(S, key, text, revision)
  local cache = S.lists
  if S.registry.revision ~= revision then return end
  if cache.revision ~= revision or cache.n >= MAX_TEXTS then cache.revision, cache.n, cache.texts = revision, 0, {} end
  cache.texts[key], cache.n = text, cache.n + 1
end)

--- The text of a list result.
---@param spec { member: string, key: string, list: fun(registry, principal): table[], row: fun(def, call): table }
---@return string|nil text
---@return table? err
function M.answer(S, call, spec)
  local cache, cursor, revision = S.lists, call.params.cursor, S.registry.revision
  if cursor ~= nil then return build(S, call, spec, cursor) end
  local key = spec.member .. "\0" .. call.protocol .. "\0" .. principal_key(call.principal)
  local text = cache.revision == revision and cache.texts[key]
  if text then return text end
  local built, err = build(S, call, spec)
  if built then keep(S, key, built, revision) end
  return built, err
end

--- A method function for a list.
function M.method(spec)
  return function(S, call) return M.answer(S, call, spec) end
end

return M
