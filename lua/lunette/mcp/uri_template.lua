-- SPDX-License-Identifier: MIT
--- Matching a URI against a URI template (RFC 6570, simple `{var}` and reserved `{+var}` expressions only, which is what resource
--- templates need). Pure.

local M = {}

local MAX_URI <const> = 2048

local function unescape(s)
  return (s:gsub("%%(%x%x)", function(hex) return string.char(tonumber(hex, 16)) end))
end

local function quote(s) return (s:gsub("%p", "%%%0")) end

---@class UriTemplate
---@field pattern string    an anchored Lua pattern with one capture a variable
---@field vars string[]     variable names in order

--- Compiles a template; nil and the reason when it uses more than `{var}` and `{+var}`.
---@param template string
---@return UriTemplate|nil compiled
---@return string? why
function M.compile(template)
  local pattern, vars, pos = "^", {}, 1
  while true do
    local from, to, operator, name = template:find("{([+]?)([%w_]+)}", pos)
    local literal = template:sub(pos, (from or 0) - 1)
    if literal:find("[{}]") then return nil, "only {var} and {+var} are supported in a URI template" end
    pattern = pattern .. quote(literal)
    if not from then break end
    pattern = pattern .. (operator == "+" and "(.+)" or "([^/?#]+)")
    vars[#vars + 1] = name
    pos = to + 1
  end
  return { pattern = pattern .. "$", vars = vars }
end

--- The variables of a URI that the template can produce, percent-decoded; nil when it does not match.
---@param compiled UriTemplate
---@param uri string
---@return table<string,string>|nil vars
function M.match(compiled, uri)
  if #uri > MAX_URI then return nil end
  local captures = table.pack(uri:match(compiled.pattern))
  if captures[1] == nil then return nil end
  local vars = {}
  for i, name in ipairs(compiled.vars) do vars[name] = unescape(captures[i]) end
  return vars
end

return M
