-- SPDX-License-Identifier: MIT
-- W3C trace ids that a caller names.
local errors = require("lunette.errors")

local M = {}

--- The id in lower case without blanks; nil, err when it is none: 32 hexadecimal digits, not all zeros.
---@param given string
---@return string? id, table? err
function M.parse(given)
  local id = given:match("^%s*(.-)%s*$"):lower()
  if #id == 32 and not id:find("%X") and id:find("[^0]") then return id end
  return nil, errors.invalid("traceId", "traceId is a W3C trace id: 32 hexadecimal digits, not all zeros.")
end

return M
