-- SPDX-License-Identifier: MIT
-- faults: a script that only adds something to an answer (a signal, a rule, a hint) and fails costs what it adds. The answer says so, since
-- what is missing must not look like what was not found; the log has it, too.
local log = require("lunette.log")
local loop = require("lunette.loop")
local sys = require("lunette.sys")

local M = {}

local MAX_KEPT <const> = 50
local MAX_TOLD <const> = 2     -- by name in one answer; of the others their number
local MAX_MESSAGE <const> = 200 -- bytes of the message of each

--- An error of a script as text: where it was and what.
---@param err any   of box:wrap or guard.call, or thrown
---@return string
function M.text(err)
  if type(err) ~= "table" then return tostring(err) end
  local message = tostring(err.message or err)
  return err.file and ("%s:%d: %s"):format(err.file, err.line or 1, message) or message
end

--- Begins to note what fails in the running task, and in those that it spawns. Gives the list, and what was noted to before.
---@return table list, table? before
function M.begin()
  local task, list = loop.current(), {}
  local before = task and rawget(task.data, "faults")
  if task then task.data.faults = list end
  return list, before
end

--- Ends it.
---@param before table?
function M.finish(before)
  local task = loop.current()
  if task then task.data.faults = before end
end

--- Notes that a script failed.
---@param what string   the thing that gave nothing, such as "the signal shop.late"
---@param text string   of M.text
function M.add(what, text)
  local task = loop.current()
  local list = task and task.data.faults
  if not list then return end
  for _, known in ipairs(list) do
    if known.what == what and known.text == text then return end -- one that is asked for twice
  end
  if #list < MAX_KEPT then list[#list + 1] = { what = what, text = text } end
end

--- Notes and logs what failed while a window was looked at.
---@param window RuleWindow
function M.of_window(window)
  for _, fault in ipairs(window.faults) do
    log.error("rules", fault.what .. " failed", { error = fault.message })
    M.add(fault.what, fault.message)
  end
end

--- A sentence to go behind the summary of an answer; empty when nothing failed.
---@param list table
---@return string
function M.told(list)
  if #list == 0 then return "" end
  local said = {}
  for i = 1, math.min(#list, MAX_TOLD) do
    local text = list[i].text
    if #text > MAX_MESSAGE then text = sys.utf8_cut(text, MAX_MESSAGE - 3) .. "..." end
    said[i] = ("%s failed and is missing here: %s."):format((list[i].what:gsub("^%l", string.upper)), text)
  end
  if #list > MAX_TOLD then said[#said + 1] = ("%d more scripts failed; the log names them."):format(#list - MAX_TOLD) end
  return " " .. table.concat(said, " ")
end

return M
