-- SPDX-License-Identifier: MIT
-- sampling: readings of a process at regular times over a window, and as many of them as an answer can hold.
local errors = require("lunette.errors")
local loop = require("lunette.loop")
local proc = require("lunette.proc")

local M = {}

M.MAX_ROWS = 120 -- readings in an answer

--- Whether the process is still the one that was resolved: its stat, or nil, err (ProcessNotFound when it is gone or its pid was reused).
---@param target TargetProcess
local function stat_of(target)
  local stat, err = proc.stat(target.pid)
  if not stat then return nil, err end
  if stat.start_time ~= target.start_time then
    return nil, errors.new("ProcessNotFound", ("Process %d ended."):format(target.pid), { process_id = target.pid })
  end
  return stat
end

---@class Window
---@field seconds number        0: one reading
---@field every_seconds number
---@field at_least integer      readings without which there is no answer

--- Takes the first reading at once, the last at the window's end. A process that ends meanwhile leaves the readings until then.
---@param target TargetProcess
---@param window Window
---@param take fun(stat: table): table?, table?    a reading, or nil, err
---@return table[]? rows
---@return table? err_or_times    monotonic milliseconds of each reading
---@return boolean? ended         the process ended within the window
function M.watch(target, window, take)
  local rows, times = {}, {}
  local began, due, window_ms = loop.now_ms(), 0, window.seconds * 1000
  while true do
    local stat, row, err
    stat, err = stat_of(target)
    if stat then row, err = take(stat) end
    if not row then
      if err.kind ~= "ProcessNotFound" or #rows < window.at_least then return nil, err end
      return rows, times, true
    end
    rows[#rows + 1], times[#times + 1] = row, loop.now_ms()
    if due >= window_ms then return rows, times, false end
    due = math.min(window_ms, due + window.every_seconds * 1000)
    local ok, cancelled = loop.sleep_ms(math.max(0, began + due - loop.now_ms()))
    if not ok then return nil, cancelled end
  end
end

--- At most MAX_ROWS of the readings, evenly spread, the first and the last among them; and a note when some were left out.
---@param rows table[]
---@return table[] kept
---@return string? note
function M.thin(rows)
  if #rows <= M.MAX_ROWS then return rows end
  local kept = {}
  for i = 0, M.MAX_ROWS - 1 do kept[i + 1] = rows[1 + (i * (#rows - 1) + (M.MAX_ROWS - 1) // 2) // (M.MAX_ROWS - 1)] end
  return kept, ("samples: %d of %d are shown, evenly spread; rates and verdict are of all"):format(M.MAX_ROWS, #rows)
end

return M
