-- SPDX-License-Identifier: MIT
-- readonly: a view of a table, and of the tables in it, through which nothing can be changed. It reads like the table (fields, #, pairs,
-- ipairs, next of a box); what it is not is the table itself: lunette.json does not encode it. Views are made as they are asked for.
local M = {}

local MAX_DEPTH <const> = 40

local real = setmetatable({}, { __mode = "k" })   -- view -> table
local views = setmetatable({}, { __mode = "kv" }) -- table -> its view, while somebody has it
local mt = {}

--- A read-only view of a table; any other value is given back as it is.
---@generic T
---@param value T
---@return T
local function view_of(value)
  if type(value) ~= "table" or real[value] then return value end
  local view = views[value]
  if view then return view end
  view = setmetatable({}, mt)
  real[view], views[value] = value, view
  return view
end
M.view = view_of

local function step(view, key)
  local k, v = next(real[view], key)
  return k, view_of(v)
end

function mt.__index(view, key) return view_of(real[view][key]) end
function mt.__newindex(_, key) error(("this table is read-only (field %s)"):format(tostring(key)), 2) end
function mt.__len(view) return #real[view] end
function mt.__pairs(view) return step, view, nil end
mt.__metatable = "read-only"

--- next, which knows views.
function M.next(of, key)
  if real[of] then return step(of, key) end
  return next(of, key)
end

--- The table behind a view; any other value is given back as it is.
function M.behind(value) return real[value] or value end

-- value with the tables behind the views in it. What holds none is given back itself; what does is copied, so that a script which keeps it
-- does not come by what is behind. stop: tables that are not looked into.
local function plain(value, stop, seen, depth)
  if type(value) ~= "table" then return value end
  if real[value] then return real[value] end
  if seen[value] ~= nil then return seen[value] end
  seen[value] = value
  if depth > MAX_DEPTH or stop(value) then return value end
  local copy
  for k, v in next, value do
    if type(v) == "table" then
      local p = plain(v, stop, seen, depth + 1)
      if p ~= v then
        copy = copy or {}
        copy[k] = p
      end
    end
  end
  if not copy then return value end
  for k, v in next, value do
    if copy[k] == nil then copy[k] = v end
  end
  seen[value] = debug.setmetatable(copy, debug.getmetatable(value))
  return copy
end

local function never() return false end

--- A value without views: what is behind them in their place.
---@param value any
---@param stop? fun(t: table): boolean   tables that are not looked into
function M.plain(value, stop)
  if type(value) ~= "table" then return value end
  return plain(value, stop or never, {}, 0)
end

return M
