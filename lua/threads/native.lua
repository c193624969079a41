-- SPDX-License-Identifier: MIT
-- native: names of native frames, and what the kernel says a thread waits for. For programs without managed threads (NativeAOT, others)
-- that is all there is to know of a stack.
local proc = require("lunette.proc")
local symbols = require("lunette.symbols")

local M = {}

local MAX_NAMES <const> = 65536 -- places that are named
local STATES <const> = { R = "Running", D = "BlockedOnUninterruptibleIO", T = "Stopped", t = "Stopped" }
local LOCK <const>, IO <const> = "BlockedOnLock", "BlockedOnIO"
-- System calls of x86-64 in which a thread waits for another, or for the outside.
local CALLS <const> = {
  [202] = LOCK, [449] = LOCK, -- futex, futex_waitv
  [0] = IO, [1] = IO, [17] = IO, [18] = IO, [19] = IO, [20] = IO, -- read, write and their kin
  [7] = IO, [23] = IO, [270] = IO, [271] = IO, [232] = IO, [281] = IO, [441] = IO, -- poll, select, epoll
  [42] = IO, [43] = IO, [288] = IO, [44] = IO, [45] = IO, [46] = IO, [47] = IO, [299] = IO, [307] = IO, -- sockets
  [208] = IO, [426] = IO, [74] = IO, [75] = IO, -- io_getevents, io_uring_enter, fsync, fdatasync
  [257] = IO, -- openat: of a pipe whose other end nobody has opened
}
local RESTARTED <const> = 219 -- it stands for the call that a stop has interrupted
-- The same by the function of the kernel, where the call is not told.
local FUNCTIONS <const> = {
  { "^futex", LOCK }, { "poll", IO }, { "select", IO }, { "sock", IO }, { "skb", IO }, { "^inet_", IO }, { "^unix_", IO }, { "pipe", IO },
  { "^wait_woken", IO }, { "^io_", IO }, { "tty", IO },
}

--- The wait of a thread by a row of proc.thread_waits; nil for one that sleeps for its own reasons (a timer, a signal, a child).
---@param row LunetteThreadWait
---@return "Running"|"BlockedOnLock"|"BlockedOnIO"|"BlockedOnUninterruptibleIO"|"Stopped"|nil
function M.reason(row)
  if STATES[row.state] then return STATES[row.state] end
  if row.syscall and row.syscall ~= RESTARTED then return CALLS[row.syscall] end
  for _, rule in ipairs(row.wchan and FUNCTIONS or {}) do
    if row.wchan:find(rule[1]) then return rule[2] end
  end
  return nil
end

--- The waits of a live process, to be read before it is stopped: tid -> reason.
---@param pid integer
---@return table<integer, string>
function M.reasons(pid)
  local by_tid = {}
  for _, row in ipairs(proc.thread_waits(pid) or {}) do by_tid[row.tid] = M.reason(row) end
  return by_tid
end

-- Functions of the C library in which a thread waits.
local WAITS <const> = {
  { "futex", LOCK }, { "^pthread_mutex_lock", LOCK }, { "^pthread_cond_", LOCK }, { "^pthread_rwlock_", LOCK }, { "lll_lock", LOCK },
  { "^sem_", LOCK }, { "^_*read$", IO }, { "^_*write$", IO }, { "^_*poll$", IO }, { "^_*ppoll", IO }, { "^_*select$", IO },
  { "^epoll_", IO }, { "^_*recv", IO }, { "^_*send", IO }, { "^_*accept", IO }, { "^_*connect$", IO },
}
local INNERMOST <const> = 3 -- frames of the C library above the one that called it

--- The wait of a thread by the functions that its innermost frames are in; nil when they tell nothing.
---@param frames table[]   named
function M.reason_of_frames(frames)
  for i = 1, math.min(INNERMOST, #frames) do
    for _, rule in ipairs(frames[i].symbol and WAITS or {}) do
      if frames[i].symbol:find(rule[1]) then return rule[2] end
    end
  end
  return nil
end

local function base(path) return path:match("([^/]+)$") or path end

local function is_named(frame) return frame.kind == "native" and frame.native_module and frame.rva and true or false end

--- Gives native frames the names of their functions, where the file of the module has symbols: module!function+0x…; the others keep
--- module+0x…. Waits.
---@param threads table[]     each with frames { kind, rva, native_module = { path, buildId }, name }
---@param live_pid integer?   nil: of a dump, whose files lie here
function M.name(threads, live_pid)
  local requests, index, places = {}, {}, {}
  for _, thread in ipairs(threads) do
    for i, frame in ipairs(thread.frames) do
      local address = is_named(frame) and math.tointeger(tonumber(frame.rva))
      if address and i > 1 then address = address - 1 end -- a return address: the call is before it
      local key = address and frame.native_module.path .. "\0" .. address
      if key and not index[key] and #requests < MAX_NAMES then
        local id, path = frame.native_module.buildId, frame.native_module.path
        requests[#requests + 1] = {
          path = live_pid and ("/proc/%d/root%s"):format(live_pid, path) or path, address = address, build_id = id ~= "" and id or nil,
        }
        index[key], places[#requests] = #requests, {}
      end
      if key and index[key] then table.insert(places[index[key]], { frame = frame, back = i > 1 and 1 or 0 }) end
    end
  end
  if #requests == 0 then return end
  for i, found in ipairs(symbols.native(requests)) do
    for _, place in ipairs(found.name and places[i] or {}) do
      local frame = place.frame
      frame.symbol = found.name
      frame.name = ("%s!%s+0x%x"):format(base(frame.native_module.path), found.name, found.offset + place.back)
    end
  end
end

return M
