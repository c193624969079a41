-- SPDX-License-Identifier: MIT
-- readonly: a view of a table, and of the tables in it, through which nothing can be changed. It reads like the table (fields, #, pairs,
-- ipairs); what it is not is the table itself: lunette.json does not encode it.
local views = setmetatable({}, { __mode = "k" })     -- table -> its view
local is_view = setmetatable({}, { __mode = "k" })   -- view -> true
local readonly

local function refuse(_, key) error(("this table is read-only (field %s)"):format(tostring(key)), 2) end

local function view_next(of)
  return function(_, key)
    local k, v = next(of, key)
    return k, readonly(v)
  end
end

---@generic T
---@param value T
---@return T
function readonly(value)
  if type(value) ~= "table" or is_view[value] then return value end
  local view = views[value]
  if view then return view end
  view = setmetatable({}, {
    __index = function(_, key) return readonly(value[key]) end,
    __newindex = refuse, __len = function() return #value end, __pairs = function(self) return view_next(value), self, nil end,
    __metatable = "read-only",
  })
  views[value], is_view[view] = view, true
  return view
end

return readonly
