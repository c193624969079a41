-- SPDX-License-Identifier: MIT
-- handed: what the framework hands to a function of a site script, where the thing itself would be too much: the context of a call holds
-- the caller's principal, which a token keeps from call to call, and the connection; an entry of the store of handles is the store's own.
local context = require("lunette.mcp.context")
local handles = require("lunette.handles")
local kinds = require("lunette.kinds")
local readonly = require("lunette.sandbox.readonly")
local scopes = require("lunette.scopes")

local M = {}

local PLAIN <const> = { transport = true, era = true, protocol = true, in_task = true, cancelled = true, state = true }
local SHOWN <const> = { principal = true, client = true, capabilities = true } -- tables: to be read
local METHODS <const> = {
  "progress", "log", "can", "require", "ask", "elicit", "sample", "roots", "begin_task", "suspend_stream",
}

local faces = setmetatable({}, { __mode = "k" }) -- context -> what scripts see of it

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
      if SHOWN[key] then return readonly(ctx[key]) end
      return methods[key]
    end,
    __newindex = refuse, __metatable = "read-only",
  })
  return faces[ctx]
end

-- An entry of the store of handles: its fields can be read; what is written to it stays the script's.
local function entry_of(entry) return setmetatable({}, { __index = entry, __metatable = "read-only" }) end

--- A value as a script may have it.
function M.value(value)
  if type(value) ~= "table" then return value end
  if context.is(value) then return face_of(value) end
  if scopes.is_principal(value) then return readonly(value) end
  local id = rawget(value, "id")
  if type(id) == "string" and handles.peek(id) == value then return entry_of(value) end
  return value
end

local value <const> = M.value

local function all(first, ...)
  if select("#", ...) == 0 then return value(first) end
  return value(first), all(...)
end

--- Values as a script may have them.
function M.values(...)
  if select("#", ...) == 0 then return end
  return all(...)
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

return M
