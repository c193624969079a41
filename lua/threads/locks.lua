-- SPDX-License-Identifier: MIT
-- Who waits for which lock: edges from a thread to the owner of what it wants, each with its source and how sure it is; cycles of them; and
-- which threads tell most.
local recognise = require("threads.recognise")

local M = {}

local ENTER <const> = { "System.Threading.Monitor.Enter", "System.Threading.Monitor.ReliableEnter", "System.Threading.Monitor.TryEnter",
  "System.Threading.Lock.Enter", "System.Threading.Lock.TryEnter" }

local JOIN <const> = "Thread.Join" -- as waits/dotnet.lua names it
local MAX_NAMED <const> = 5 -- threads that a sentence names

local ENTER_DEPTH <const> = 8 -- frames from the top that may enter a lock

-- Whether one of the innermost frames enters a lock.
local function enters(thread)
  for _, frame in recognise.innermost(thread.frames, ENTER_DEPTH) do
    local name = frame.method and recognise.plain(frame.name) or ""
    for _, start in ipairs(ENTER) do
      if name:sub(1, #start) == start then return true end
    end
  end
  return false
end

-- Locks that the thread's waiting frames refer to, and that another thread owns.
local function candidates(thread, locks_by_object)
  local found, seen = {}, {}
  for _, ref in ipairs(thread.refs or {}) do
    local lock = locks_by_object[ref.object]
    if lock and not seen[lock] and lock.waiters > 0 and lock.owner_id ~= thread.id then
      found[#found + 1], seen[lock] = { lock = lock, frame = ref.frame }, true
    end
  end
  return found
end

-- How sure it is that a thread wants a lock: the runtime counts who waits but does not say who.
local function confidence(found, names_it)
  if names_it and #found == 1 then return "high" end
  return names_it and "medium" or "low"
end

--- Fills `wants` of threads and `waiting` of locks.
---@param artifact table
function M.connect(artifact)
  local by_object = {}
  for _, lock in ipairs(artifact.locks) do
    by_object[lock.object], lock.waiting = lock, {}
  end
  for _, thread in ipairs(artifact.threads) do
    local names_it = enters(thread)
    -- .NET 8 and 9 wait for a contended lock in the method that wants it, without a frame of their own; a thread that is seen to wait for
    -- something else (a join, a sleep, a task) only has the object on its stack
    local silent = not names_it and thread.silent_wait and thread.reason == nil
    if names_it or silent then
      local found = candidates(thread, by_object)
      table.sort(found, function(a, b) return a.frame < b.frame end)
      local first = found[1]
      if first then
        thread.wants = {
          lock = first.lock, source = "stack-inferred", confidence = confidence(found, names_it),
        }
        first.lock.waiting[#first.lock.waiting + 1] = thread.id
        thread.reason = thread.reason or recognise.MONITOR
      end
    end
  end
  for _, lock in ipairs(artifact.locks) do
    -- the runtime's own count confirms what the stacks say
    if #lock.waiting > 0 and #lock.waiting == lock.waiters then lock.confirmed = true end
  end
end

local function owner_of(artifact, thread)
  local lock = thread.wants and thread.wants.lock
  return lock and lock.owner_id and artifact.by_id[lock.owner_id]
end

--- Cycles of threads that wait for each other's locks, each once, the one with the lowest thread id first.
---@return table[][]   lists of threads, in the order of waiting
function M.cycles(artifact)
  local done, cycles = {}, {}
  for _, start in ipairs(artifact.threads) do
    local path, at = {}, {}
    local thread = start
    while thread and not done[thread] and not at[thread] do
      path[#path + 1] = thread
      at[thread] = #path
      thread = owner_of(artifact, thread)
    end
    if thread and at[thread] then cycles[#cycles + 1] = table.move(path, at[thread], #path, 1, {}) end
    for _, passed in ipairs(path) do done[passed] = true end
  end
  for _, cycle in ipairs(cycles) do -- each begins with its lowest id
    local lowest = 1
    for i, member in ipairs(cycle) do
      if member.id < cycle[lowest].id then lowest = i end
    end
    local turned = {}
    for i = 0, #cycle - 1 do turned[i + 1] = cycle[(lowest - 1 + i) % #cycle + 1] end
    table.move(turned, 1, #turned, 1, cycle)
  end
  table.sort(cycles, function(a, b) return a[1].id < b[1].id end)
  return cycles
end

--- What to say of owners of contended locks that stand in Thread.Join: which thread they wait for is not known, so a circle that goes
--- through it is not found. nil where there are none.
---@param artifact table
---@return string?
function M.joins(artifact)
  local ids, seen = {}, {}
  for _, lock in ipairs(artifact.locks) do
    local owner = lock.waiters > 0 and lock.owner_id and artifact.by_id[lock.owner_id]
    if owner and not seen[owner] and (owner.reason == JOIN or owner.operation == JOIN) then
      ids[#ids + 1], seen[owner] = owner.id, true
    end
  end
  if #ids == 0 then return nil end
  table.sort(ids)
  local more = #ids > MAX_NAMED and (" and %d more"):format(#ids - MAX_NAMED) or ""
  return ("Thread%s %s%s own%s a lock that others want while in Thread.Join: which thread is joined is not known here, and if that one "
    .. "wants the lock, they wait for each other for ever. Look at the stacks."):format(#ids == 1 and "" or "s",
    table.concat(ids, ", ", 1, math.min(#ids, MAX_NAMED)), more, #ids == 1 and "s" or "")
end

--- Locks by what they cost: most waiters first.
function M.ranked(artifact)
  local list = table.move(artifact.locks, 1, #artifact.locks, 1, {})
  table.sort(list, function(a, b)
    if a.waiters ~= b.waiters then return a.waiters > b.waiters end
    if a.recursion ~= b.recursion then return a.recursion > b.recursion end
    return a.object < b.object
  end)
  return list
end

-- Ranks of the inline answer: the lower the more decisive.
local DEADLOCK <const>, OWNER <const>, FAULTING <const>, RUNNING <const>, BLOCKED <const>, OTHER <const>, PARKED <const>, DEAD <const> =
  1, 2, 3, 4, 5, 6, 7, 8

local function application_frame(thread)
  local top = thread.frames[1]
  return top and top.method and not top.name:find("^System%.") and not top.name:find("^Microsoft%.")
    and not top.name:find("^Interop")
end

local function rank_of(thread, owners)
  if not thread.alive then return DEAD end
  if owners[thread.id] and thread.wants then return DEADLOCK end
  if owners[thread.id] then return OWNER end
  if thread.exception_type then return FAULTING end
  if not thread.reason and application_frame(thread) then return RUNNING end
  if thread.reason and not recognise.PARKED[thread.reason] and not thread.finalizer then return BLOCKED end
  if thread.reason or #thread.frames == 0 then return PARKED end
  return OTHER
end

--- Threads in the order in which they matter: those in a possible deadlock, owners of contended locks, faulting ones, those that run
--- code of the program, blocked ones, the rest.
function M.decisive(artifact)
  local owners, ranks = {}, {}
  for _, lock in ipairs(artifact.locks) do
    if lock.waiters > 0 and lock.owner_id then owners[lock.owner_id] = true end
  end
  local list = table.move(artifact.threads, 1, #artifact.threads, 1, {})
  for _, thread in ipairs(list) do ranks[thread] = rank_of(thread, owners) end
  table.sort(list, function(a, b)
    if ranks[a] ~= ranks[b] then return ranks[a] < ranks[b] end
    if (a.wants ~= nil) ~= (b.wants ~= nil) then return a.wants ~= nil end
    if #a.frames ~= #b.frames then return #a.frames > #b.frames end
    return a.key < b.key
  end)
  return list
end

return M
