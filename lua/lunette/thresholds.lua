-- SPDX-License-Identifier: MIT
-- thresholds: the numbers from which on code calls something by a word (growing, dispersed, an incident). They are declared by rules, in
-- their field `numbers`, so that a site can change them as any other threshold.
local index = require("lunette.rules.index")

local M = {}

local NEVER <const> = setmetatable({}, { __index = function() return math.huge end })

--- The numbers of a rule. Of one that a site took out, each is infinite: nothing comes to it.
---@param name string   of the rule
---@return table<string, number>
function M.of(name) return index.of().numbers[name] or NEVER end

return M
