-- SPDX-License-Identifier: MIT
--- All texts of a value, keys too, wherever they are: for what must be nowhere in it.
---@param value any
---@param list? string[]   to go on with
---@return string[]
local function texts(value, list, seen)
  list, seen = list or {}, seen or {}
  if type(value) == "string" then list[#list + 1] = value end
  if type(value) == "table" and not seen[value] then
    seen[value] = true
    for k, v in pairs(value) do
      texts(k, list, seen)
      texts(v, list, seen)
    end
  end
  return list
end

return texts
