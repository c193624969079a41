-- SPDX-License-Identifier: MIT
-- standing: a createdump that is killed (by hand, for its memory) while it attaches leaves the process stopped, as by SIGSTOP, and with it
-- the runtime that would tell of its end. Nobody else lets it go on, so we do.
local log = require("lunette.log")
local loop = require("lunette.loop")
local proc = require("lunette.proc")

local M = {}

M.TICK_MS = 200
local ENDS <const> = 10 -- looks after a dump that failed: each thread has a stop of its own, which may come a moment later

--- Whether a process is stopped, and nobody traces it.
---@param pid integer
function M.stands(pid)
  local status = proc.status(pid)
  local stat = status and (status.tracer_pid or 0) == 0 and proc.stat(pid)
  return stat and stat.state == "T" and stat or nil
end

-- Whether somebody writes its dump: a child of that name.
local function is_written(pid)
  for _, one in ipairs(proc.pids() or {}) do
    local stat = proc.stat(one)
    if stat and stat.ppid == pid and stat.state ~= "Z" and stat.comm == "createdump" then return true end
  end
  return false
end

local function let_go(pid)
  local stat = M.stands(pid)
  if not stat or is_written(pid) then return false end
  local ok, err = proc.signal(pid, stat.start_time, "CONT")
  log.warning("dumps", "a createdump that was ended left its process stopped; it was told to go on",
    { pid = pid, error = not ok and err and tostring(err) or nil })
  return true
end

--- Looks after a process while its dump is written, until the task is cancelled. A stop is one when it is seen twice.
---@param pid integer
function M.watch(pid)
  local before = false
  while loop.sleep_ms(M.TICK_MS) do
    local now = M.stands(pid) ~= nil
    if now and before then let_go(pid) end
    before = now
  end
end

--- Looks after a process whose dump has failed, or cannot be found.
---@param pid integer
function M.release(pid)
  for _ = 1, ENDS do
    let_go(pid)
    if not loop.sleep_ms(M.TICK_MS // 2) then return end
  end
end

return M
