-- SPDX-License-Identifier: MIT
-- A process that a signal or a debugger has stopped: nothing of it runs, and its runtime answers nobody, so that it is not asked, and the
-- emptiness of a window has a cause.
local proc = require("lunette.proc")

local M = {}

local STATES <const> = { T = "a signal (kill -CONT %d lets it go on)", t = "a debugger" }

--- What has stopped a process, just now; nil: nothing, or it is gone.
---@param pid integer
---@return string? by
function M.by(pid)
  local stat = proc.stat(pid)
  local by = stat and STATES[stat.state]
  return by and by:format(pid)
end

--- Whether asking the runtime is in vain: it was tried already, or the process stands still.
---@param process TargetProcess
---@return boolean
function M.is_mute(process) return process.why_not ~= nil or M.by(process.pid) ~= nil end

--- Says first of all, at the end of a window, that the process is stopped.
---@param pid integer
---@param notes string[]
function M.note(pid, notes)
  local by = M.by(pid)
  if by then table.insert(notes, 1, ("Stopped: the process stood still as the window ended: it was stopped by %s."):format(by)) end
end

return M
