-- SPDX-License-Identifier: MIT
-- hints: what to call next.
local json = require("lunette.json")

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

--- What is wrong with a hint that a script made; nil when nothing is.
---@param hint any
---@return string?
function M.fault(hint)
  if type(hint) ~= "table" or type(hint.nextTool) ~= "string" or type(hint.reason) ~= "string" then
    return "is no hint: make it with hints.new(tool, reason, arguments) of lunette.hints"
  end
  local arguments = hint.suggestedArguments
  if arguments ~= nil and (type(arguments) ~= "table" or not pcall(json.encode, arguments)) then
    return "has no names and values as its suggestedArguments"
  end
end

local LATER <const> = " (Not in this version yet.)"
local RECORDED <const> = " (If the recording has it.)"
local runs = {}  -- name of a tool -> function(arguments) -> boolean
local reads = {} -- name of a tool -> function(arguments, name) -> boolean

--- Tells that there is a tool, and which calls of it can run; a hint at any other is marked when it is given out.
---@param tool string
---@param can_run fun(arguments: table): boolean
---@param takes? fun(arguments: table, name: string): boolean   whether such a call reads a parameter of that name
function M.announce(tool, can_run, takes) runs[tool], reads[tool] = can_run, takes end

--- Tells that a tool is gone.
function M.retract(tool) runs[tool], reads[tool] = nil, nil end

-- What tells what a hint looks at.
local SUBJECTS <const> = { "processId", "handle", "traceFilePath", "dumpFilePath" }
-- What means something for a process that runs only.
local LIVE_ONLY <const> = { "durationSeconds", "intervalSeconds", "exportTrace" }

local function has_subject(arguments)
  for _, name in ipairs(SUBJECTS) do
    if arguments[name] ~= nil then return true end
  end
  return false
end

-- A hint that would look at any process, over the recording; nil when its tool reads none.
local function over(hint, path, kind, takes)
  local arguments = { traceFilePath = path }
  for name, value in pairs(hint.suggestedArguments or {}) do arguments[name] = value end
  if arguments.kind == kind or arguments.cpuBackend == "Os" or not takes(arguments, "traceFilePath") then return nil end
  for _, name in ipairs(LIVE_ONLY) do arguments[name] = nil end
  return M.new(hint.nextTool, hint.reason .. RECORDED, arguments, hint.priority)
end

--- The hints after a capture of a recording. Its process may be on another machine, or gone: a hint that names no process would look at
--- one that has nothing to do with it, so it is for the same recording where its tool reads one, and is not given where not.
---@param list table[]
---@param path string               as the caller gave it
---@param kind string               of the capture, which is not made again
---@param keep? fun(hint: table): boolean   those that stay as they are
---@return table[]
function M.of_recording(list, path, kind, keep)
  local out = {}
  for _, hint in ipairs(list) do
    local arguments, takes = hint.suggestedArguments or {}, reads[hint.nextTool]
    if not takes or has_subject(arguments) or keep and keep(hint) or not takes(arguments, "processId") then
      out[#out + 1] = hint
    else
      out[#out + 1] = over(hint, path, kind, takes)
    end
  end
  return out
end

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
