-- SPDX-License-Identifier: MIT
-- The end of the guarded process: a watch that is set before the window opens, and asked when the stream is over.
local loop = require("lunette.loop")
local proc = require("lunette.proc")

local M = {}

M.ENDING_MS = 3000 -- for a process whose stream broke off to be gone: the kernel may be busy with its memory
M.STATUS_MS = 500  -- more, for its status to be told
local POLL_MS <const> = 10

--- Watches a process; nil when it cannot be watched (another system call filter, an older kernel): then only its absence can be seen.
---@param process { pid: integer, start_time: integer? }
function M.watch(process)
  local watch = proc.watch(process.pid)
  local stat = watch and proc.stat(process.pid)
  if stat and (not process.start_time or stat.start_time == process.start_time) then return watch end
  if watch then watch:close() end
  return nil
end

local function gone(process)
  local stat = proc.stat(process.pid)
  return not stat or stat.state == "Z" or stat.state == "X" or (process.start_time ~= nil and stat.start_time ~= process.start_time)
end

--- Whether the process has ended, and how when that is told: ended, { code?, signal? }?. `wait`: its stream is over, so it is about to.
---@return boolean ended, table? exit
function M.look(process, watch, wait)
  local give_up = loop.now_ms() + (wait and M.ENDING_MS or 0)
  local exit
  while true do
    exit = watch and watch:ended() or nil
    if exit or (not watch and gone(process)) then break end
    if loop.now_ms() >= give_up then return false end
    if not loop.sleep_ms(POLL_MS) then return false end
  end
  give_up = loop.now_ms() + M.STATUS_MS
  while watch and not (exit.code or exit.signal) and loop.now_ms() < give_up do
    if not loop.sleep_ms(POLL_MS) then break end
    exit = watch:ended() or exit
  end
  return true, exit
end

return M
