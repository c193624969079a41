-- SPDX-License-Identifier: MIT
-- forks: what the runtime of a self-contained single-file program of .NET 8 or 9 leaves of a dump. It forks, and the fork writes the dump
-- by code that is in the program; then, instead of ending, it goes on as the thread that it was forked from, the one that serves
-- diagnostics. It answers in the place of the process from then on (8.0 and 9.0 have it say that the dump is written), while that thread of
-- the process waits for its end; and it writes into memory for code that both share, which can crash the process. So it is ended as soon
-- as it has answered. One whose server was killed meanwhile is ended before the next dump, or by the next server. .NET 10 leaves none.
local able = require("dumps.able")
local artifacts = require("lunette.artifacts")
local fs = require("lunette.fs")
local log = require("lunette.log")
local loop = require("lunette.loop")
local proc = require("lunette.proc")
local store = require("artifacts.store")

local M = {}

M.TICK_MS = 200 -- between looks at a process whose dump is written
M.REST_MS = 300 -- between two looks at a fork that does nothing any more
local SERVER <const> = ".NET EventPipe" -- the name of the runtime's thread that serves diagnostics, which its fork keeps
local STAGE <const> = "^%.?lunette%-%x+$" -- the private folder of a dump (native/artifacts/stage.c)
local PART <const> = "^dump_pid(%d+)_"    -- what is written there

---@class DumpMark   a process before its dump is written
---@field pid integer
---@field since integer    in the ticks of `start_time`
---@field started integer?  when the process began
---@field program string?

--- What is to be known of a process before its dump is written: it may have ended when its forks are looked for.
---@param pid integer
---@return DumpMark
function M.mark(pid)
  local clock, stat = proc.clock(), proc.stat(pid)
  return {
    pid = pid, since = clock and clock.uptime_ms * clock.ticks_per_s // 1000 - 1 or 0, started = stat and stat.start_time,
    program = proc.link(pid, "exe"),
  }
end

-- Processes of one thread with the name of the one that serves diagnostics: a program that a fork starts has another name.
local function servers(since)
  local list = {}
  for _, one in ipairs(proc.pids() or {}) do
    local stat = proc.stat(one)
    if stat and stat.comm == SERVER and stat.threads == 1 and stat.start_time >= since and stat.state ~= "Z" then list[#list + 1] = stat end
  end
  return list
end

-- Those of a program that were made since then by a process of which is_made_by(pid) is true, and forks of these; each stands behind the
-- one that made it.
local function family(program, since, is_made_by)
  local list, known, left = {}, {}, program and servers(since) or {}
  repeat
    local n = #list
    for i = #left, 1, -1 do
      if (known[left[i].ppid] or is_made_by(left[i].ppid)) and proc.link(left[i].pid, "exe") == program then
        known[left[i].pid], list[#list + 1] = true, left[i]
        table.remove(left, i)
      end
    end
  until #list == n
  return list
end

local function forks_of(pid, since)
  return family(proc.link(pid, "exe"), since, function(ppid) return ppid == pid end)
end

local function end_all(list, pid)
  local n = 0
  for i = #list, 1, -1 do
    local ended, err = proc.signal(list[i].pid, list[i].start_time, "KILL")
    if ended then n = n + 1 end
    log[err and "warning" or "info"]("dumps", err and "a fork that a dump left cannot be ended" or "a fork that a dump left was ended",
      { pid = pid, fork = list[i].pid, error = err and tostring(err) or nil })
  end
  return n
end

local function has_ended(mark)
  local stat = proc.stat(mark.pid)
  return not stat or stat.state == "Z" or stat.start_time ~= mark.started
end

--- Ends the forks that a dump has left of a process. One whose process has ended has another parent: it is known by its program, whose
--- forks have that program's process as their parent else. It traces the process, which cannot be taken away before it ends.
---@param mark DumpMark
---@return integer n   how many
function M.end_left(mark)
  local ended = has_ended(mark)
  return end_all(family(mark.program, mark.since, function(ppid)
    return ppid == mark.pid or ended and proc.link(ppid, "exe") ~= mark.program
  end), mark.pid)
end

--- Looks after a process while its dump is written, until the task is cancelled. One that ends leaves its fork, which keeps the connection
--- on which the dump was asked for, and answers nobody.
---@param mark DumpMark
function M.watch(mark)
  while loop.sleep_ms(M.TICK_MS) do
    if has_ended(mark) then M.end_left(mark) end
  end
end

-- What forks have computed, in ticks; nil when one does something: who writes a dump traces the process, or runs.
local function rest(list, pid)
  local status, ticks = proc.status(pid), 0
  if not status or (status.tracer_pid or 0) ~= 0 then return nil end
  for _, stat in ipairs(list) do
    if stat.state ~= "S" then return nil end
    ticks = ticks + stat.user_ticks + stat.system_ticks
  end
  return ticks
end

--- Ends the forks that an earlier dump has left of a process, whoever asked for it; none while one still writes. Waits.
---@param pid integer
---@return integer n   how many
function M.end_stale(pid)
  local list = forks_of(pid, 0)
  local ticks = #list > 0 and rest(list, pid)
  if not ticks or not loop.sleep_ms(M.REST_MS) then return 0 end
  local now = forks_of(pid, 0)
  if #now ~= #list or rest(now, pid) ~= ticks then return 0 end
  return end_all(now, pid)
end

-- Whether a private folder of ours holds what a dump of the process wrote.
local function is_begun(pid)
  for _, file in ipairs(artifacts.list(store.root()) or {}) do
    local folder, name = file.name:match("([^/]+)/([^/]+)$")
    if folder and folder:find(STAGE) and name:match(PART) == tostring(pid) then return true end
  end
  for _, folder in ipairs(able.folders(pid)) do
    local inside = ("/proc/%d/root%s"):format(pid, folder)
    for _, stage in ipairs(fs.list(inside) or {}) do
      for _, name in ipairs(stage:find(STAGE) and fs.list(inside .. "/" .. stage) or {}) do
        if name:match(PART) == tostring(pid) then return true end
      end
    end
  end
  return false
end

--- Ends the forks that dumps of a server which was killed have left: those of processes of which a dump was begun, and not fetched. Waits.
---@return integer n   how many
function M.sweep()
  local n, parents = 0, {}
  for _, stat in ipairs(servers(0)) do parents[stat.ppid] = true end
  for pid in pairs(parents) do
    if fs.stat(store.root()) and is_begun(pid) then n = n + M.end_stale(pid) end
  end
  return n
end

return M
