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

local LATER <const> = " (Not in this version yet.)"
local runs = {} -- name of a tool -> function(arguments) -> boolean

--- Tells that there is a tool, and which calls of it can run; a hint at any other is marked when it is given out.
---@param tool string
---@param can_run fun(arguments: table): boolean
function M.announce(tool, can_run) runs[tool] = can_run end

--- Tells that a tool is gone.
function M.retract(tool) runs[tool] = nil end

--- The hints as they are given out: at most MAX; those that this version cannot follow say so and stand behind the others.
---@param list table[]
---@return table[]
function M.settle(list)
  local now, later = {}, {}
  for i = 1, math.min(#list, M.MAX) do
    local hint = list[i]
    local can_run = runs[hint.nextTool]
    local elsewhere = hint.nextTool:find(".", 1, true) -- SERVER.TOOL of another server
    if elsewhere or can_run and (not hint.suggestedArguments or can_run(hint.suggestedArguments)) then -- without any: the tool, however
      now[#now + 1] = hint
    else
      later[#later + 1] = M.new(hint.nextTool, hint.reason .. LATER, hint.suggestedArguments, "low")
    end
  end
  return table.move(later, 1, #later, #now + 1, now)
end

return M
