-- SPDX-License-Identifier: MIT
-- The names of event levels, as .NET writes them.
local M = {}

local NAMES <const> = { [0] = "LogAlways", "Critical", "Error", "Warning", "Informational", "Verbose" }

--- The name of a level; a number that has none is written as such.
---@param level integer
---@return string
function M.name(level) return NAMES[level] or tostring(level) end

return M
