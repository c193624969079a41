-- SPDX-License-Identifier: MIT
-- What a site script may do must be asked for: whoever may call it must hold at least the scopes of the privileged functions that it uses.
local declare = require("lunette.declare")
local fs = require("lunette.fs")
local grants = require("lunette.sandbox.grants")
local kinds = require("lunette.kinds")
local safety = require("lunette.safety")
local site = require("lunette.site")
local text = require("lunette.text")

local M = {}

local DEFAULT_COLLECTOR <const> = { "eventpipe" }

-- The scopes that every caller holds who passes a requirement; those of "any" are not sure, unless there is but one.
local function sure_of(requirement, into)
  if type(requirement) ~= "table" then return into end
  local list = requirement.list or requirement
  if requirement.semantics == "any" and #list > 1 then return into end
  for _, scope in ipairs(list) do into[scope] = true end
  return into
end

local function both(a, b)
  local out = {}
  for scope in pairs(a) do out[scope] = b[scope] or nil end
  return out
end

local sure = {} -- kind of declaration -> fn(declared) -> set of scopes

-- Those of the tool, and of each of its branches that can run.
function sure.tool(declared)
  local own, all = sure_of(declared.scopes, {}), nil
  if not declared.discriminator then return sure_of(declared.call_scopes, own) end
  for _, branch in pairs(declared.branches) do
    if branch.run then
      local set = sure_of(branch.scopes, {})
      for scope in pairs(own) do set[scope] = true end
      all = all and both(all, set) or set
    end
  end
  return all or own
end

function sure.collector(declared) return sure_of(declared.scopes or DEFAULT_COLLECTOR, {}) end

function sure.view(declared, build)
  local kind = build.kinds and build.kinds[declared.kind] or kinds.declaration(declared.kind)
  return sure_of(declared.scopes, sure_of(kind and kind.scopes, {}))
end

-- A signal looks at captures; who sees them was asked for the scopes of their kind.
function sure.signal(declared, build)
  local all
  for _, name in ipairs(type(declared.handle) == "table" and declared.handle or { declared.handle }) do
    local kind = build.kinds and build.kinds[name] or kinds.declaration(name)
    local set = sure_of(kind and kind.scopes, {})
    all = all and both(all, set) or set
  end
  return all or {}
end

-- The source of a file and of what it uses of lib/.
local function sources(run, path)
  local list = { { path, run.source } }
  for dep in pairs(run.deps or {}) do list[#list + 1] = { dep, fs.read(dep, site.MAX_SCRIPT) } end
  return list
end

-- Whether a requirement lets in somebody whom the older one kept out. A function is as good as itself only.
local function lets_in_more(new, old)
  if old == nil then return false end
  if type(old) == "function" or type(new) == "function" or new == nil then return new ~= old end
  local list, has = old.list or old, {}
  for _, scope in ipairs(new.list or new) do has[scope] = true end
  if old.semantics == "any" then -- fewer of the same words, or all of some of them
    local known = {}
    for _, scope in ipairs(list) do known[scope] = true end
    for scope in pairs(has) do
      if new.semantics == "any" and not known[scope] then return true end
      if new.semantics ~= "any" and known[scope] then return false end
    end
    return new.semantics ~= "any" or next(has) == nil
  end
  if new.semantics == "any" and #(new.list or new) > 1 then return true end
  for _, scope in ipairs(list) do
    if not has[scope] then return true end
  end
  return false
end

local function rank(risk) return safety.rank(safety.descriptor(risk)) end

-- Whether a risk is told to be less than it was: a call of high risk must be acknowledged. A function is as good as itself only.
local function is_calmer(new, new_max, old, old_max)
  if type(new) == "function" then
    if new == old then return rank(new_max) < rank(old_max) end
    return true
  end
  if type(old) == "function" then old = old_max end
  return rank(new) < rank(old)
end

--- Where a declaration asks less of its callers than what it stands upon, whose functions it may use: the field; nil when nowhere.
---@param value table
---@param below table?   the declaration beneath
---@return string?
function M.weaker(value, below)
  local new, old = declare.of(value), below and declare.of(below)
  if not new or not old or new.kind ~= old.kind or not sure[new.kind] then return nil end
  new, old = new.declared, old.declared
  local default = declare.of(value).kind == "collector" and DEFAULT_COLLECTOR or nil
  if lets_in_more(new.scopes or default, old.scopes or default) then return "scopes" end
  if lets_in_more(new.call_scopes, old.call_scopes) then return "call_scopes" end
  if is_calmer(new.risk, new.max_risk, old.risk, old.max_risk) then return "risk" end
  for name, branch in pairs(old.branches or {}) do
    local mine = new.branches and new.branches[name]
    if mine and mine.run and is_calmer(mine.risk, mine.max_risk, branch.risk, branch.max_risk) then
      return "branches." .. name .. ".risk"
    end
    if mine and mine.run and lets_in_more(mine.scopes, branch.scopes) then return "branches." .. name .. ".scopes" end
  end
  return nil
end

--- Where a collector asks less than what it does needs: a program of reducers opens an event session, and what was captured is for those
--- who could have captured it. The field and why; nil when nowhere.
---@param value table
---@return string? field, string? why
function M.too_open(value)
  local known = declare.of(value)
  if not known or known.kind ~= "collector" then return nil end
  local declared = known.declared
  local needed = declared.scopes or DEFAULT_COLLECTOR
  if declared.program ~= nil and lets_in_more(needed, DEFAULT_COLLECTOR) then
    return "scopes", "a program opens an event session: it asks for the scope eventpipe, which must be among its scopes"
  end
  local handle = type(declared.handle) == "table" and declared.handle.scopes
  if handle and type(needed) == "table" and lets_in_more(handle, needed) then
    return "handle.scopes", "must ask for at least the scopes of the collector, since what it captures is for those who hold them"
  end
  return nil
end

--- The scopes that a file's callers are sure to hold.
---@param value table
---@param build table
---@return string[]
function M.scopes(value, build)
  local known = declare.of(value)
  local of = known and sure[known.kind]
  return of and text.keys(of(known.declared, build)) or {}
end

--- The highest risk that a declaration tells: what it calls of other tools may have no higher one.
---@param value table
---@return string|table
function M.risk(value)
  local known, highest = declare.of(value), "low"
  local function add(risk, max)
    if type(risk) == "function" then risk = max end
    if risk ~= nil and rank(risk) > rank(highest) then highest = risk end
  end
  if not known or known.kind ~= "tool" and known.kind ~= "collector" then return highest end
  add(known.declared.risk, known.declared.max_risk)
  for _, branch in pairs(known.declared.branches or {}) do add(branch.risk, branch.max_risk) end
  return highest
end

--- The first use of a privileged function whose scope the declaration does not ask for.
---@param run RunResult
---@param file SiteFile
---@param sure_scopes string[]   of M.scopes
---@return Problem?
function M.missing(run, file, sure_scopes)
  local have, known = {}, declare.of(run.value)
  for _, scope in ipairs(sure_scopes) do have[scope] = true end
  for _, one in ipairs(sources(run, file.path)) do
    local _, uses = grants.required(one[2] or "")
    for _, use in ipairs(uses) do
      for _, scope in ipairs(use.scopes) do
        if not have[scope] then
          local what = known and known.kind or "declaration"
          local cure = sure[what] and "add it to its scopes (all of them, in every branch that runs)" or "such a declaration has no scopes"
          return { file = one[1], line = use.line, message = ("%s%s asks for the scope %s, which this %s does not: %s"):format(use.module,
            use.name and "." .. use.name or "", scope, what, cure) }
        end
      end
    end
  end
  return nil
end

-- lunette.tool and the like: the word itself, and what stands beside it.
local function is_word(kind, name)
  if name == nil or name == kind then return true end
  for _, member in ipairs(require("lunette.generation.files").BESIDE[kind] or {}) do
    if member == name then return true end
  end
  return false
end

--- Uses of modules and functions that there are not for site scripts, as problems: what a call would meet.
---@param source string
---@param path string
---@return Problem[]
function M.unknown(source, path)
  local list = {}
  local _, uses = grants.required(source)
  for _, use in ipairs(uses) do
    local word = use.module:match("^lunette%.([%w_]+)$")
    local ours = require("lunette.generation.files").helper(use.module) or word and declare.SCHEMAS[word] and is_word(word, use.name)
    if use.unknown and not ours then
      local module = grants.MODULES[use.module]
      local message
      if module then
        message = ("%s has no %s for site scripts.%s"):format(use.module, use.name, text.did_you_mean(use.name, text.keys(module)))
      else
        message = ("there is no module %s for site scripts.%s"):format(use.module, text.did_you_mean(use.module, grants.names()))
      end
      list[#list + 1] = { file = path, line = use.line, message = message }
    end
  end
  return list
end

return M
