-- SPDX-License-Identifier: MIT
-- Whose wait it is: the first frame of a stack that is not the machinery of locks and waits. The lists are data, for a team to change:
-- put the wrappers of your own locks in, and the sites are those who call them.
local M = {}

M.UNKNOWN = "(unknown)" -- no stack, or one without names
M.MAX_FRAMES = 12       -- of one stack kept to be shown

--- The note for a window whose sites have no names.
M.NO_NAMES = "NoNames: call sites are (unknown), since the program told no method names: it ended before it could, its recording has "
  .. "none, or it is compiled ahead of time."

--- Frames of entering a lock, by how their names begin. .NET 10 has Monitor's in its stacks, 8 and 9 only where it tries with a limit.
M.LOCKS = {
  "System.Threading.Monitor.", "System.Threading.Lock.", "System.Threading.Lock+", "System.Threading.ObjectHeader.",
  "System.Threading.ReaderWriterLock.", "System.Threading.ReaderWriterLockSlim.", "System.Threading.SpinLock.",
  "System.Threading.SpinWait.", "System.Diagnostics.Tracing.NativeRuntimeEventSource.",
}

--- Frames of waiting, beside those of locks.
M.WAITS = {
  "System.Threading.WaitHandle.", "System.Threading.Mutex.", "System.Threading.Semaphore.", "System.Threading.EventWaitHandle.",
  "System.Threading.ManualResetEventSlim.", "System.Threading.SemaphoreSlim.", "System.Threading.CountdownEvent.",
  "System.Threading.Barrier.", "System.Threading.Thread.Join", "System.Threading.SynchronizationContext.Wait",
  "System.Threading.WaitSubsystem", "System.Threading.Condition.", "System.Threading.LowLevel",
  "System.Threading.Tasks.Task.Wait", "System.Threading.Tasks.Task.InternalWait", "System.Threading.Tasks.Task.SpinThenBlockingWait",
  "System.Threading.Tasks.Task`1[", "System.Runtime.CompilerServices.TaskAwaiter",
  "System.Runtime.CompilerServices.ConfiguredTaskAwaitable", "System.Runtime.CompilerServices.ValueTaskAwaiter",
  "System.Runtime.CompilerServices.ConfiguredValueTaskAwaitable",
  "System.Collections.Concurrent.BlockingCollection`1",
}

--- Frames of throwing, in the stack of an exception.
M.THROWS = { "System.Runtime.EH." }

--- Sites whose threads wait because there is nothing to do.
M.IDLE = {
  "System.Threading.TimerQueue.", "System.Threading.PortableThreadPool+", "System.Threading.PortableThreadPool.",
  "System.Threading.ThreadPoolBoundHandle", "System.Threading.RegisteredWaitHandle",
}

--- Frames of an attempt with a limit: its end does not tell that the lock was had.
M.ATTEMPTS = { "System.Threading.Monitor.TryEnter", "System.Threading.Lock.TryEnter(" }

local function begins_with(name, prefixes)
  for _, prefix in ipairs(prefixes) do
    if name:sub(1, #prefix) == prefix then return true end
  end
  return false
end

--- The prefixes of both lists, for a group of the engine.
---@return string[]
function M.skip()
  local list = { table.unpack(M.LOCKS) }
  return table.move(M.WAITS, 1, #M.WAITS, #list + 1, list)
end

local function machinery(name)
  return begins_with(name, M.LOCKS) or begins_with(name, M.WAITS) or begins_with(name, M.THROWS)
end

---@class WaitSite
---@field method string    as in Namespace.Type.Method(int32)
---@field module string
---@field api string?      the frame above the site: what it called

--- The site of a stack, whole or cut by the engine. A stack that is machinery altogether is its leaf's.
---@param stack { frames: { name: string?, module: string? }[] }?
---@return WaitSite
function M.site(stack)
  local frames = stack and stack.frames or {}
  local at = 1
  while frames[at] and frames[at].name and machinery(frames[at].name) do at = at + 1 end
  if not frames[at] then at = 1 end
  local frame = frames[at] or {}
  local api = at > 1 and frames[at - 1].name or nil
  return { method = frame.name or M.UNKNOWN, module = frame.module or M.UNKNOWN, api = api and api:match("^[^(]+") }
end

--- Notes that a group of the engine has keys without a row of their own.
---@param notes string[]
---@param group table
---@param what string   what its keys are, several
function M.limit_note(notes, group, what)
  if not group.other then return end
  notes[#notes + 1] = ("GroupLimit: %d more %s have no row of their own; they are in the totals."):format(group.other.keys or 0, what)
end

--- How many had not ended: "3", or "200 (of 731, the oldest are kept)".
---@param n integer     of those that are kept
---@param pair table    of the engine's result
function M.still_waiting(n, pair)
  if (pair.open or 0) <= #pair.open_rows then return tostring(n) end
  return ("%d (of %d, the oldest are kept)"):format(n, pair.open)
end

--- Notes starts that no stop came for before the next one of their thread: what the runtime lost.
---@param notes string[]
---@param pair table    of the engine's result
---@param what string   what a start begins, several
function M.unpaired_note(notes, pair, what)
  local n = (pair.replaced or 0) + (pair.dropped or 0)
  if n == 0 then return end
  notes[#notes + 1] = ("Unpaired: the end of %d %s did not come, as when events are lost; they are left out."):format(n, what)
end

--- What tells sites apart.
---@param site WaitSite
function M.key(site) return site.module .. "!" .. site.method end

--- The names of a stack, leaf first, at most MAX_FRAMES; nil when none of them is known.
---@return string[]?
function M.names(stack)
  local list, named = {}, false
  for i, frame in ipairs(stack and stack.frames or {}) do
    if i > M.MAX_FRAMES then break end
    named = named or frame.name ~= nil
    list[i] = frame.name or frame.address
  end
  return named and list or nil
end

--- Whether a thread waits there because there is nothing to do.
---@param method string
function M.idle(method) return begins_with(method, M.IDLE) end

--- Whether a contention with this stack may have ended without the lock.
function M.attempt(stack)
  for _, frame in ipairs(stack and stack.frames or {}) do
    if not frame.name or not begins_with(frame.name, M.LOCKS) then return false end
    if begins_with(frame.name, M.ATTEMPTS) then return true end
  end
  return false
end

return M
