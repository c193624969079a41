-- SPDX-License-Identifier: MIT
-- Who held the lock while others waited, and where that owner was. Contentions of one lock are gone through in order of time; between two
-- of them all who wait do so because of the one owner of that time. Owners come to light in two ways: an event of a waiter names the owner,
-- and a waiter whose contention ended is the new owner. Where an owner was is told only by events of its own thread:
--   holding    something it did while others waited for it: a wait, a throw, a contention for another lock
--   acquired   how it came to the lock, while others waited already: where it had waited for it itself
--   earlier    the same, but nobody waited yet when it got the lock: it may have let go and taken it again elsewhere
--   later      what it did next, after the lock was handed on
--   none       no event of its thread near that time
-- Each says by how much the stack is late: after the beginning of the waiting that it is to explain; negative when it is older.
local frames = require("collectors.waits.frames")

local M = {}

M.NEAR_NS = 1000000000  -- an event so long before or after says nothing of it any more
M.MAX_OWNERS = 5        -- rows of one lock
M.MAX_IDS = 8           -- thread ids in one of them

---@class Contended             a contention that ended; or, without stop_ns, one that had not
---@field start_ns integer      since the session's start
---@field stop_ns integer?
---@field thread integer        who waited
---@field lock integer
---@field owner integer?        as the runtime named it at the start
---@field stack integer?        of the result's stacks

---@class Sighting              a thread's own event
---@field at_ns integer
---@field thread integer
---@field stack integer?
---@field lock integer?         a contention: the lock that it was for

---@class Tenure                one owner's time with a lock, as far as others waited
---@field owner integer?
---@field from_ns integer
---@field until_ns integer
---@field since_ns integer      when the first of them waited
---@field blocked_ns integer    all their waiting together
---@field acquired integer|false   stack of its own contention for the lock

-- Starts and stops of one lock in order of time. At one time stops come first, since they make room, but for those that only started.
local function moments(list, end_ns)
  local all = {}
  for _, c in ipairs(list) do
    local stop_ns = math.max(c.start_ns, c.stop_ns or end_ns)
    all[#all + 1] = { at = c.start_ns, rank = 2, starts = true, of = c }
    all[#all + 1] = { at = stop_ns, rank = stop_ns == c.start_ns and 3 or 1, starts = false, of = c }
  end
  table.sort(all, function(a, b)
    if a.at ~= b.at then return a.at < b.at end
    if a.rank ~= b.rank then return a.rank < b.rank end
    return a.of.thread < b.of.thread
  end)
  return all
end

--- The tenures of one lock's owners that made somebody wait.
---@param list Contended[]
---@param end_ns integer            the end of the window, for those who still waited
---@param stacks table[]
---@param ids_are_threads boolean   owners are named by the ids that events carry
---@return Tenure[]
function M.tenures(list, end_ns, stacks, ids_are_threads)
  local found, waiting, n, current, last = {}, {}, 0, nil, 0
  local function pass(at)
    if current and n > 0 and at > last then
      current.blocked_ns = current.blocked_ns + n * (at - last)
      current.since_ns = current.since_ns or last
      current.until_ns = at
      if not current.listed then
        found[#found + 1], current.listed = current, true
      end
    end
    last = at
  end
  local function pass_on(owner, at, acquired)
    current = { owner = owner, from_ns = at, until_ns = at, blocked_ns = 0, acquired = acquired }
  end
  for _, m in ipairs(moments(list, end_ns)) do
    local c = m.of
    pass(m.at)
    if m.starts then
      -- One who waits for the lock does not have it: such a word is from before the hand-over.
      local told = c.owner and c.owner ~= 0 and c.owner ~= c.thread and not waiting[c.owner]
      if not current then
        pass_on(told and c.owner or nil, m.at, false)
      elseif told and current.owner ~= c.owner and (ids_are_threads or n == 0) then
        pass_on(c.owner, m.at, false)
      end
      if not waiting[c.thread] then n = n + 1 end
      waiting[c.thread] = true
    elseif waiting[c.thread] then
      waiting[c.thread], n = nil, n - 1
      if c.stop_ns and not frames.attempt(stacks[c.stack]) then pass_on(c.thread, m.at, c.stack or false) end
    end
  end
  return found
end

-- Per thread, in order of time.
local function by_thread(sightings)
  local threads = {}
  for _, s in ipairs(sightings) do
    if s.stack then
      threads[s.thread] = threads[s.thread] or {}
      table.insert(threads[s.thread], s)
    end
  end
  for _, list in pairs(threads) do table.sort(list, function(a, b) return a.at_ns < b.at_ns end) end
  return threads
end

-- The first sighting from then on of something else than waiting for this lock.
local function first_from(list, at_ns, lock)
  local low, high = 1, #list + 1
  while low < high do
    local mid = (low + high) // 2
    if list[mid].at_ns < at_ns then low = mid + 1 else high = mid end
  end
  while list[low] and list[low].lock == lock do low = low + 1 end
  return list[low]
end

--- Where the owner of a tenure was: evidence, stack and by how much that is late.
---@return "holding"|"acquired"|"earlier"|"later"|"none" evidence, integer? stack, integer? late_ns
local function evidence_of(tenure, lock, threads)
  local list = threads[tenure.owner or false] or {}
  local seen = first_from(list, tenure.since_ns, lock)
  if seen and seen.at_ns <= tenure.until_ns then return "holding", seen.stack, seen.at_ns - tenure.since_ns end
  if tenure.acquired and tenure.since_ns - tenure.from_ns <= M.NEAR_NS then
    return tenure.from_ns == tenure.since_ns and "acquired" or "earlier", tenure.acquired, tenure.from_ns - tenure.since_ns
  end
  if seen and seen.at_ns - tenure.until_ns <= M.NEAR_NS then return "later", seen.stack, seen.at_ns - tenure.since_ns end
  return "none"
end

local function add_id(row, id)
  if not id or row.ids[id] then return end
  row.ids[id] = true
  if #row.owners < M.MAX_IDS then row.owners[#row.owners + 1] = id end
end

local function heavier(a, b)
  if a.blocked_ns ~= b.blocked_ns then return a.blocked_ns > b.blocked_ns end
  return a.order < b.order
end

---@class Blamed
---@field evidence string
---@field owners integer[]      thread ids, at most MAX_IDS
---@field tenures integer
---@field blocked_ns integer
---@field late_ns integer?      median
---@field max_late_ns integer?
---@field site WaitSite
---@field stack string[]?

local function blamed(row, stacks)
  table.sort(row.late)
  local late, stack = row.late, stacks[row.stack or false]
  return {
    evidence = row.evidence, owners = row.owners, tenures = row.tenures, blocked_ns = row.blocked_ns,
    late_ns = late[(#late + 1) // 2], max_late_ns = late[#late], site = frames.site(stack), stack = frames.names(stack),
  }
end

--- The owners of one lock, those who made others wait longest first.
---@param tenures Tenure[]
---@param lock integer
---@param threads table<integer, Sighting[]>
---@param stacks table[]
---@return Blamed[]
local function owners_of(tenures, lock, threads, stacks)
  local rows, list = {}, {}
  for _, tenure in ipairs(tenures) do
    local evidence, stack, late_ns = evidence_of(tenure, lock, threads)
    -- without a stack owners are told apart by their threads
    local key = evidence .. ":" .. tostring(stack or tenure.owner)
    local row = rows[key]
    if not row then
      row = { evidence = evidence, stack = stack, owners = {}, ids = {}, tenures = 0, blocked_ns = 0, late = {}, order = #list }
      rows[key], list[#list + 1] = row, row
    end
    row.tenures, row.blocked_ns = row.tenures + 1, row.blocked_ns + tenure.blocked_ns
    row.late[#row.late + 1] = late_ns
    add_id(row, tenure.owner)
  end
  table.sort(list, heavier)
  for i, row in ipairs(list) do list[i] = i <= M.MAX_OWNERS and blamed(row, stacks) or nil end
  return list
end

--- The owners of each lock.
---@param contentions Contended[]
---@param sightings Sighting[]      of all threads, contentions among them
---@param options { end_ns: integer, stacks: table[], ids_are_threads: boolean }
---@return table<integer, { owners: Blamed[], blocked_ns: integer }> by_lock
function M.of(contentions, sightings, options)
  local locks, threads = {}, options.ids_are_threads and by_thread(sightings) or {}
  for _, c in ipairs(contentions) do
    locks[c.lock] = locks[c.lock] or {}
    table.insert(locks[c.lock], c)
  end
  local by_lock = {}
  for lock, list in pairs(locks) do
    local tenures = M.tenures(list, options.end_ns, options.stacks, options.ids_are_threads)
    local blocked_ns = 0
    for _, tenure in ipairs(tenures) do blocked_ns = blocked_ns + tenure.blocked_ns end
    by_lock[lock] = { owners = owners_of(tenures, lock, threads, options.stacks), blocked_ns = blocked_ns }
  end
  return by_lock
end

return M
