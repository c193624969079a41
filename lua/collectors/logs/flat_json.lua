-- SPDX-License-Identifier: MIT
-- The flat JSON objects of the logging EventSource, also when they were cut: texts by name in their order.
local json = require("lunette.json")

local M = {}

M.MAX = 64 -- members of one object

-- A JSON text that begins at the quote `from`: what is between the quotes, whether its end is there, and where it goes on.
local function text_at(s, from)
  local at = from + 1
  while true do
    local mark = s:find('[\\"]', at)
    if not mark then return s:sub(from + 1), false, #s + 1 end
    if s:byte(mark) == 34 then return s:sub(from + 1, mark - 1), true, mark + 1 end
    at = mark + 2
  end
end

-- The escapes of a text opened; of a cut one, half an escape at its end is left off.
local function opened(raw, whole)
  if not whole then raw = raw:gsub("\\u?%x?%x?%x?$", "") end
  local list = json.decode('["' .. raw .. '"]')
  return list and type(list[1]) == "string" and list[1] or raw
end

--- Members as { name, value, whole }: value is a text; others (null, numbers) as they are written. whole is false for one that was cut.
---@param s string?
---@return { [1]: string, [2]: string, [3]: boolean }[]
function M.members(s)
  local list = {}
  if type(s) ~= "string" then return list end
  local at = s:match("^%s*{()")
  while at and #list < M.MAX do
    local quote = s:match('^[%s,]*()"', at)
    if not quote then break end
    local name, value, whole
    name, whole, at = text_at(s, quote)
    local from = whole and s:match("^%s*:%s*()", at)
    if not from then break end
    if s:sub(from, from) == '"' then
      value, whole, at = text_at(s, from)
      list[#list + 1] = { opened(name, true), opened(value, whole), whole }
    else
      value, at = s:match("^([^,}]+)()", from)
      if not value then break end
      list[#list + 1] = { opened(name, true), value, s:sub(at, at) ~= "" }
    end
  end
  return list
end

--- The value of a name, and whether it is whole; nil when it is not there.
---@return string?, boolean?
function M.value(s, name)
  for _, member in ipairs(M.members(s)) do
    if member[1] == name then return member[2], member[3] end
  end
  return nil
end

return M
