-- SPDX-License-Identifier: MIT
-- forks: what the runtime of a self-contained single-file program of .NET 8 or 9 leaves of a dump. It forks, and the fork writes the dump
-- by code that is in the program; then, instead of ending, it goes on as the thread that it was forked from, the one that serves
-- diagnostics. It answers in the place of the process from then on (8.0 and 9.0 have it say that the dump is written), while that thread of
-- the process waits for its end; and it writes into memory for code that both share, which can crash the process. So it is ended as soon
-- as it has answered. .NET 10 leaves none.
local log = require("lunette.log")
local proc = require("lunette.proc")

local M = {}

local SERVER <const> = ".NET EventPipe" -- the name of the runtime's thread that serves diagnostics, which its fork keeps

--- Now, in the ticks of `start_time`.
function M.now()
  local clock = proc.clock()
  return clock and clock.uptime_ms * clock.ticks_per_s // 1000 - 1 or 0
end

-- Whether a process is a fork of the thread that serves diagnostics, made since then: a program that a fork starts has another name.
local function is_left(stat, pid, since, program)
  return stat.ppid == pid and stat.threads == 1 and stat.comm == SERVER and stat.start_time >= since and stat.state ~= "Z"
    and proc.link(stat.pid, "exe") == program
end

--- Ends the forks that a dump since then has left of a process.
---@param pid integer
---@param since integer   of now()
---@return integer n   how many
function M.end_left(pid, since)
  local program, n = proc.link(pid, "exe"), 0
  for _, one in ipairs(program and proc.pids() or {}) do
    local stat = proc.stat(one)
    if stat and is_left(stat, pid, since, program) then
      local ended, err = proc.signal(one, stat.start_time, "KILL")
      if ended then n = n + 1 end
      log[err and "warning" or "info"]("dumps", err and "a fork that a dump left cannot be ended" or "a fork that a dump left was ended",
        { pid = pid, fork = one, error = err and tostring(err) or nil })
    end
  end
  return n
end

return M
