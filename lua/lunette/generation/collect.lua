-- SPDX-License-Identifier: MIT
-- The kinds of collect_events that layers add: each collector's kind becomes a word of `kind`, a branch, and, where it is new, a kind of
-- handle.
local declare = require("lunette.declare")
local kinds = require("lunette.kinds")
local scopes = require("lunette.scopes")
local tool = require("lunette.tool")

local M = {}

local DEFAULT_TAKES <const> = { "depth", "traceFilePath" }

local function copy(t)
  local out = {}
  for k, v in pairs(t) do out[k] = v end
  return out
end

local function has(list, word)
  for _, w in ipairs(list or {}) do
    if w == word then return true end
  end
  return false
end

--- What a collector says of its handle as a declaration of a kind; nil when the kind is one of the product's.
---@param declared table   of a collector
function M.kind_of(declared)
  local handle = declared.handle or declared.kind
  if type(handle) == "string" then
    if kinds.base(handle) then return nil end
    handle = { name = handle }
  end
  local needed = handle.scopes or type(declared.scopes) == "table" and declared.scopes or { "eventpipe" }
  scopes.requirement(needed)
  return {
    name = handle.name, views = handle.views or {}, default_view = handle.default_view, scopes = needed, risk = handle.risk
      or type(declared.risk) == "string" and declared.risk or "low", default_top_n = handle.default_top_n, lifetime = handle.lifetime,
    collector = { tool = "collect_events", arguments = { kind = declared.kind } }, wrapper = "CollectionQueryResult",
    artifact = declared.payload or "Capture",
  }
end

-- A parameter of collect_events as it is with the new kinds.
local function parameter(p, added)
  local out = copy(p)
  local name = p.name or p[1]
  if name == "kind" then
    out.enum = copy(p.enum)
    for _, c in ipairs(added) do
      if not has(out.enum, c.kind) then out.enum[#out.enum + 1] = c.kind end
    end
  elseif p.applies_to then
    out.applies_to = copy(p.applies_to)
    for _, c in ipairs(added) do
      if has(c.takes or DEFAULT_TAKES, name) and not has(out.applies_to, c.kind) then out.applies_to[#out.applies_to + 1] = c.kind end
    end
  end
  return out
end

--- collect_events with the collectors of all layers. A kind of the product's that is collected anew keeps its parameters.
---@param base table           the tool as it is without them
---@param collectors table[]   values of collector { … }
function M.extend(base, collectors)
  local declared, added = copy(base.declared), {}
  declared.branches, declared.params = copy(base.declared.branches), {}
  for i, value in ipairs(collectors) do
    added[i] = declare.of(value).declared
    declared.branches[added[i].kind] = value
  end
  local names = {}
  for i, p in ipairs(base.declared.params) do
    declared.params[i] = parameter(p, added)
    names[p.name or p[1]] = declared.params[i]
  end
  for _, c in ipairs(added) do
    for _, p in ipairs(c.params or {}) do
      local own = copy(p)
      local name = own.name or own[1]
      if names[name] then
        local applies = names[name].applies_to
        if applies and not has(applies, c.kind) then applies[#applies + 1] = c.kind end
      else
        own.applies_to = { c.kind }
        names[name] = own
        declared.params[#declared.params + 1] = own
      end
    end
  end
  return tool.compile(declared)
end

return M
