-- SPDX-License-Identifier: MIT
-- Names from a target, and of levels, as answers have them.
local sys = require("lunette.sys")
local text = require("lunette.text")

local M = {}

M.MAX_SPOKEN = 120 -- bytes of a name within a sentence

local LEVELS <const> = { [0] = "LogAlways", "Critical", "Error", "Warning", "Informational", "Verbose" }

--- The name of a level, as .NET writes it; a number that has none is written as such.
---@param level integer
---@return string
function M.level(level) return LEVELS[level] or tostring(level) end

--- A name of the target for a sentence: one line, cut.
---@param name string
---@return string
function M.spoken(name)
  name = text.printable(name)
  if #name <= M.MAX_SPOKEN then return name end
  return sys.utf8_cut(name, M.MAX_SPOKEN - 3) .. "..."
end

return M
