-- SPDX-License-Identifier: MIT
-- What a thread waits for, by the methods on its stack: the label of the wait (names of the `waits` files of all layers, so that a site can
-- add its own), and the bucket of an async stall. Thread state only: nothing is known of how long.
local waits = require("samplers.waits")

local M = {}

M.PARKED = { ["ThreadPool worker idle wait"] = true, ["ThreadPool worker idle spin"] = true }
M.MONITOR = "Monitor.Enter (contended)"
M.BLOCKING_TASK = "Task.Wait (blocking)"
local DEEPEST <const> = 24 -- frames from the top that may belong to one wait; native ones between them are not counted

-- What the library does on its way into a wait; the first frame beyond is the caller's.
local LIBRARY <const> = { "System.Threading.", "System.Runtime.CompilerServices.", "Interop+" }

-- The buckets, as the first that fits; `any`: a frame's name holds one of these (plain text).
M.STALLS = {
  { bucket = "ChannelAwait", any = { "System.Threading.Channels." } },
  { bucket = "TcsPending", any = { "TaskCompletionSource" } },
  {
    bucket = "SyncOverAsync",
    any = {
      "System.Threading.Tasks.Task.Wait", "System.Threading.Tasks.Task.InternalWait", "GetResultCore", "TaskAwaiter.GetResult",
      "TaskAwaiter.HandleNonSuccess", ".GetAwaiter", "TaskAwaiter`1",
    },
  },
  { bucket = "SemaphoreAwait", any = { "System.Threading.SemaphoreSlim.Wait" } },
  { bucket = "Delay", any = { "System.Threading.Tasks.Task.Delay", "DelayPromise" } },
}
M.ORDER = { "SyncOverAsync", "ChannelAwait", "TcsPending", "SemaphoreAwait", "Delay", "Unknown" }

--- "Ns.Type`1[[System.Int32, …]].Method(System.String)" -> "Ns.Type.Method", as lists of waits name it.
---@param method string
---@return string
function M.plain(method)
  local name = method:gsub("%[%[.-%]%]", ""):gsub("%[.-%]", "")
  name = name:match("^[^%(]*") or name
  return (name:gsub("`%d+", ""))
end

local function fits(name, pattern)
  if pattern:sub(-1) == "*" then return name:sub(1, #pattern - 1) == pattern:sub(1, -2) end
  return name == pattern
end

local function reason_of(name, names)
  for _, entry in ipairs(names) do
    if fits(name, entry.name) then return entry.reason end
  end
  return nil
end

local function of_library(name)
  for _, start in ipairs(LIBRARY) do
    if name:sub(1, #start) == start then return true end
  end
  return false
end

--- The innermost n frames that are not native, each with its index in the stack.
---@param frames table[]   innermost first
---@param n integer
---@return fun(): integer?, table?
function M.innermost(frames, n)
  local at, left = 0, n
  return function()
    repeat at = at + 1 until not frames[at] or frames[at].kind ~= "native"
    left = left - 1
    if left < 0 or not frames[at] then return nil end
    return at, frames[at]
  end
end

--- The wait that a stack shows, by the library's own frames at its top: the label of the first that has one, and that of the outermost:
--- a task's wait stands on an event, and that on a monitor. A worker that is parked for want of work is named so, whatever it stands on.
---@param frames table[]   innermost first, with name
---@param names? table[]   default: of this call's generation
---@return string? reason, string? operation
function M.wait(frames, names)
  names = names or waits.current().names
  local reason, operation
  for _, frame in M.innermost(frames, DEEPEST) do
    if frame.method then
      local name = M.plain(frame.name)
      local found = reason_of(name, names)
      if found then reason, operation = reason or found, found end
      if not found and not of_library(name) then break end
    end
  end
  if M.PARKED[operation] then return operation, operation end
  return reason, operation
end

local function holds(frames, texts)
  for _, frame in ipairs(frames) do
    for _, text in ipairs(texts) do
      if frame.name:find(text, 1, true) then return true end
    end
  end
  return false
end

--- The bucket of a thread that is held up by async work; nil for one that is not. `waits_on` are the types of what it waits for.
---@param thread table
---@return string?
function M.stall(thread)
  local seen = {}
  for _, frame in M.innermost(thread.frames, DEEPEST) do seen[#seen + 1] = frame end
  for _, type_name in ipairs(thread.waits_on or {}) do seen[#seen + 1] = { name = type_name } end
  local blocked = thread.reason ~= nil and not M.PARKED[thread.reason]
  for _, entry in ipairs(M.STALLS) do
    if holds(seen, entry.any) then return blocked and entry.bucket or nil end
  end
  for _, frame in ipairs(thread.frames) do
    if blocked and frame.name:find(">d__%d+%.MoveNext%(") then return "Unknown" end
  end
  return nil
end

return M
