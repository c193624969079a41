-- SPDX-License-Identifier: MIT
-- What has become of a process by the end of a window. Stopped by a signal or a debugger: nothing of it runs, and its runtime answers
-- nobody, so that it is not asked, and the emptiness of the window has a cause. Replaced by execve: what came later is of another program.
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

--- The file of the program that a process runs; nil: it is gone, or may not be looked at.
---@param pid integer
---@return string?
function M.program(pid)
  local path = proc.link(pid, "exe")
  return path and (path:gsub(" %(deleted%)$", "")) -- removed or replaced on disk, which says nothing of the process
end

--- Says first of all, at the end of a window, that the process is stopped, or another program than at its begin.
---@param pid integer
---@param notes string[]
---@param program string?   of M.program as the window began
function M.note(pid, notes, program)
  local now = program and M.program(pid)
  if now and now ~= program then
    table.insert(notes, 1, ("Replaced: the process executed another program within the window (%s): what came later is of that one, and is "
      .. "among what is told."):format(now))
  end
  local by = M.by(pid)
  if by then table.insert(notes, 1, ("Stopped: the process stood still as the window ended: it was stopped by %s."):format(by)) end
end

return M
