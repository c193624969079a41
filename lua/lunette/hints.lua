-- SPDX-License-Identifier: MIT
-- hints: what to call next.
local M = {}

local ORDER <const> = { __order = { "nextTool", "reason", "suggestedArguments", "priority" } }
local PRIORITIES <const> = { high = true, normal = true, low = true }
M.MAX = 8 -- hints in one answer; more only confuse

--- A hint. The first of a list is the preferred next call.
---@param tool string        name of the tool
---@param reason string      one sentence
---@param arguments? table   names and values for that call; an empty table is left out
---@param priority? "high"|"normal"|"low"
---@return table
function M.new(tool, reason, arguments, priority)
  if type(tool) ~= "string" or type(reason) ~= "string" then error("hints.new: tool and reason must be text", 2) end
  if priority and not PRIORITIES[priority] then error("hints.new: priority is high, normal or low", 2) end
  return setmetatable({
    nextTool = tool, reason = reason,
    suggestedArguments = arguments and next(arguments) ~= nil and arguments or nil,
    priority = priority or "normal",
  }, ORDER)
end

return M
