-- SPDX-License-Identifier: MIT
-- handed: what the framework hands to a function of a site script, where the thing itself would be too much: the context of a call holds
-- the caller's principal, which a token keeps from call to call, and the connection; an entry of the store of handles is the store's own.
local context = require("lunette.mcp.context")
local handles = require("lunette.handles")
local kinds = require("lunette.kinds")
local readonly = require("lunette.sandbox.readonly")
local scopes = require("lunette.scopes")

local M = {}

local MAX_DEPTH <const> = 40
local PLAIN <const> = { transport = true, era = true, protocol = true, in_task = true, cancelled = true, state = true }
local SHOWN <const> = { principal = true, client = true, capabilities = true } -- tables: to be read
local METHODS <const> = {
  "progress", "log", "can", "require", "ask", "elicit", "sample", "roots", "begin_task", "suspend_stream",
}

local faces = setmetatable({}, { __mode = "k" })  -- context -> what scripts see of it
local behind = setmetatable({}, { __mode = "kv" }) -- and back, while it lives

local function refuse(_, key) error(("ctx is read-only (field %s)"):format(tostring(key)), 2) end

local function face_of(ctx)
  if faces[ctx] then return faces[ctx] end
  local methods = {}
  for _, name in ipairs(METHODS) do
    methods[name] = function(_, ...) return ctx[name](ctx, ...) end
  end
  faces[ctx] = setmetatable({}, {
    __index = function(_, key)
      if PLAIN[key] then return ctx[key] end
      if SHOWN[key] then return readonly.view(ctx[key]) end
      return methods[key]
    end,
    __newindex = refuse, __metatable = "read-only",
  })
  behind[faces[ctx]] = ctx
  return faces[ctx]
end

--- The context behind what a script has of it, or nil.
function M.context(face) return behind[face] end

-- A context, or what a composite call makes of one for its parts.
local function is_context(value)
  return context.is(value) or getmetatable(value) ~= nil and rawget(value, "progress") ~= nil and scopes.is_principal(value.principal)
end

-- An entry of the store of handles: its fields can be read, and what was captured; what is written to it stays the script's.
local function entry_of(entry)
  return setmetatable({}, { __index = function(_, key) return readonly.view(entry[key]) end, __metatable = "read-only" })
end
M.entry = entry_of

local function is_entry(value)
  local id = rawget(value, "id")
  return type(id) == "string" and handles.peek(id) == value
end

--- A value as a script may have it.
function M.value(value)
  if type(value) ~= "table" then return value end
  if is_context(value) then return face_of(value) end
  if scopes.is_principal(value) then return readonly.view(value) end
  if is_entry(value) then return entry_of(value) end
  return value
end

local value <const> = M.value

local function all(with, first, ...)
  if select("#", ...) == 0 then return with(first) end
  return with(first), all(with, ...)
end

--- Values as a script may have them.
function M.values(...)
  if select("#", ...) == 0 then return end
  return all(value, ...)
end

-- What is somebody else's, too: an artifact, a capture. Only an entry and a context have forms of their own.
local function shared_value(v)
  local given = value(v)
  return given == v and readonly.view(v) or given
end

--- Values as a script may have them that looks at what others look at, too.
function M.shared(...)
  if select("#", ...) == 0 then return end
  return all(shared_value, ...)
end

--- What a view is given: the artifact and the entry are everybody's, its options and the context are its own.
function M.of_view(artifact, options, entry, ctx) return shared_value(artifact), value(options), shared_value(entry), value(ctx) end

local function given_back(v)
  if type(v) ~= "table" then return v end
  return readonly.plain(v, is_entry)
end

--- What a script gave, without the forms that are for scripts only.
function M.back(...)
  if select("#", ...) == 0 then return end
  return all(given_back, ...)
end

--- A function that finds entries of handles, as a script has it: those whose kind asks for no more than the script declares.
---@param box Sandbox
---@param find fun(...): table?, table?
function M.finder(box, find)
  return function(...)
    local entry, err = find(...)
    if not entry then return nil, err end
    local kind = kinds.get(entry.kind)
    local ok, missing = scopes.check(scopes.principal(box.name, box.scopes or {}), kind and kind.scopes or scopes.requirement())
    if not ok then
      error(("handles of the kind %s ask for the scope %s, which this script does not declare"):format(entry.kind, missing), 2)
    end
    return entry_of(entry)
  end
end

-- A copy of plain data, with the marks of lunette.json.
local function copy_of(v, depth)
  if type(v) ~= "table" or depth > MAX_DEPTH then return v end
  local out = {}
  for k, inner in next, v do out[k] = copy_of(inner, depth + 1) end
  return debug.setmetatable(out, debug.getmetatable(v))
end

local function copied(v) return copy_of(v, 0) end

--- Copies of what one of our functions gave a script.
function M.copies(...)
  if select("#", ...) == 0 then return end
  return all(copied, ...)
end

return M
