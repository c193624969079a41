-- SPDX-License-Identifier: MIT
-- Filters by name that a caller gives as patterns with * and ?: their check, and the condition for the reducer engine.
local errors = require("lunette.errors")

local M = {}

M.MAX = 64        -- patterns in one call
M.MAX_NAME = 256  -- bytes of one

--- The patterns of a parameter, trimmed; nil when there is none, which means everything. nil, err for one that cannot be.
---@param parameter string
---@param given string[]?
---@return string[]? patterns, table? err
function M.check(parameter, given)
  if not given or #given == 0 then return nil end
  if #given > M.MAX then return nil, errors.invalid(parameter, ("%s takes at most %d names; got %d."):format(parameter, M.MAX, #given)) end
  local patterns = {}
  for i, name in ipairs(given) do
    name = name:match("^%s*(.-)%s*$")
    if name == "" or #name > M.MAX_NAME or name:find("%c") or (name:find('"', 1, true) and name:find("'", 1, true)) then
      return nil, errors.invalid(parameter, ("%s holds names of 1 to %d bytes, with * and ? as wildcards; entry %d is not one.")
        :format(parameter, M.MAX_NAME, i))
    end
    patterns[i] = name
  end
  return patterns
end

--- Whether a pattern has a wildcard.
function M.is_pattern(name) return name:find("[*?]") ~= nil end

-- A text of the engine's language: it has no escapes, but two kinds of quotes.
local function literal(text)
  local quote = text:find('"', 1, true) and "'" or '"'
  return quote .. text .. quote
end
M.literal = literal

--- The condition that `value` fits one of the patterns; "true" without any.
---@param value string        an expression
---@param patterns string[]?
---@return string
function M.where(value, patterns)
  if not patterns then return "true" end
  local parts = {}
  for i, name in ipairs(patterns) do
    parts[i] = M.is_pattern(name) and ("like(%s, %s)"):format(value, literal(name)) or ("%s == %s"):format(value, literal(name))
  end
  return "(" .. table.concat(parts, " or ") .. ")"
end

return M
