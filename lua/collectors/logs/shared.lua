-- SPDX-License-Identifier: MIT
-- The windows of this server over the log messages of one process. The filter of its EventSource loggers is one for the whole process: the
-- session that opens last sets it, and one that ends may take it away from those that go on. Here it is only noticed, so that it is said.
local atomic = require("lunette.atomic")

local M = {}

---@class LogWindow
---@field pid integer?      nil: a recording, nothing is shared
---@field shared boolean    another one was open on the process at the same time
local Window = {}
Window.__index = Window

local open = {} -- pid -> windows; only inside atomic

local enter = atomic(function(window)
  local windows = open[window.pid] or {}
  open[window.pid] = windows
  for one in pairs(windows) do one.shared, window.shared = true, true end
  windows[window] = true
end)

Window.__close = atomic(function(window)
  local windows = open[window.pid]
  if not windows then return end
  windows[window] = nil
  if next(windows) == nil then open[window.pid] = nil end
end)

--- Tells that a window begins; to be closed.
---@param pid integer?
---@return LogWindow
function M.enter(pid)
  local window = setmetatable({ pid = pid, shared = false }, Window)
  if pid then enter(window) end
  return window
end

return M
