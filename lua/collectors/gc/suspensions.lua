-- SPDX-License-Identifier: MIT
-- The suspension stream of GC measurement v2: fully suspended phases, from the end of SuspendEE to the begin of RestartEE, for GC and GC
-- preparation. Nothing is concluded from collections, and no end is made up.
--
-- What the runtime does: SuspendEEStart (with the reason) is written before the lock on all threads is taken, so two threads may have
-- begun; it is matched by thread. From SuspendEEStop to RestartEEStart the lock is held: at most one phase is open at a time. RestartEEStop
-- comes after the lock was given back, and is matched by thread again.
local durations = require("collectors.gc.durations")

local M = {}

M.REASONS = { [1] = true, [6] = true } -- GC, GC preparation (the later phases of a background collection)
M.MAX_LONGEST = 500   -- longest phases kept beyond the retained prefix
M.MAX_BEGUN = 4096    -- threads that may have begun a suspension, or be ending one; more only after loss
M.MAX_INSTANCES = 16  -- runtimes told apart; with two there are no numbers anyway
M.BOUNDS_MS = { 1, 10, 100, 1000 } -- upper bounds of the histogram's buckets, the last one is open
local NO_COUNT <const> = 0xffffffff

---@class SuspensionMark
---@field at integer        ns since the session's start
---@field thread integer
---@field clr integer       ClrInstanceID
---@field reason integer?   of the begin
---@field count integer?    collections so far, of the begin

---@class SuspensionPhase
---@field start_ns integer
---@field end_ns integer?   nil when no end was seen
---@field reason integer
---@field count integer?
---@field reliable boolean

local Suspensions = {}
Suspensions.__index = Suspensions

---@param max_rows integer   phases kept as rows
function M.new(max_rows)
  return setmetatable({
    max_rows = max_rows, rows = {}, dropped = 0, longest = {}, buckets = { 0, 0, 0, 0, 0 },
    pause = durations.new(), acquire = durations.new(), restart = durations.new(), suspended_ns = 0, other = 0, marks = 0,
    instances = {}, n_instances = 0, ambiguous = 0, censored_start = false, censored_end = false, without_reason = false,
  }, Suspensions)
end

local function instance_of(self, clr)
  local found = self.instances[clr] or self.n_instances >= M.MAX_INSTANCES and self.instances[self.last_instance]
  if not found then
    found = { begun = {}, n_begun = 0, resuming = {}, n_resuming = 0, open = nil, entered = false }
    self.instances[clr], self.n_instances, self.last_instance = found, self.n_instances + 1, clr
  end
  return found
end

-- Something did not fit. Before the first complete entry it is what the window's start cut off, later it is a lost event.
local function misfit(self, entered)
  if entered then self.ambiguous = self.ambiguous + 1 else self.censored_start = true end
end

local function keep(self, row)
  if #self.rows < self.max_rows then self.rows[#self.rows + 1] = row else self.dropped = self.dropped + 1 end
end

-- The longest ones in a binary heap, shortest on top.
local function keep_longest(list, row)
  local ns = row.end_ns - row.start_ns
  local function length(i) return list[i].end_ns - list[i].start_ns end
  local i
  if #list < M.MAX_LONGEST then
    i = #list + 1
    list[i] = row
    while i > 1 and length(i // 2) > length(i) do
      list[i], list[i // 2] = list[i // 2], list[i]
      i = i // 2
    end
  elseif ns > length(1) then
    list[1], i = row, 1
    while 2 * i <= #list do
      local least = 2 * i
      if least < #list and length(least + 1) < length(least) then least = least + 1 end
      if length(i) <= length(least) then break end
      list[i], list[least], i = list[least], list[i], least
    end
  end
end

local function bucket_of(ns)
  for i, bound in ipairs(M.BOUNDS_MS) do
    if ns < bound * 1000000 then return i end
  end
  return #M.BOUNDS_MS + 1
end

-- A phase whose end was never seen.
local function leave_open(self, open)
  if M.REASONS[open.reason] then
    keep(self, { start_ns = open.at, reason = open.reason, count = open.count, reliable = false })
  end
end

local MARKS <const> = {}

function MARKS.begin(self, clr, mark)
  if mark.reason == nil then self.without_reason = true end
  if clr.begun[mark.thread] then
    misfit(self, true)
  else
    clr.n_begun = clr.n_begun + 1
    if clr.n_begun > M.MAX_BEGUN then
      clr.begun, clr.n_begun = {}, 1
      misfit(self, true)
    end
  end
  clr.begun[mark.thread] = mark
end

function MARKS.suspended(self, clr, mark)
  local begun = clr.begun[mark.thread]
  if begun then
    clr.begun[mark.thread], clr.n_begun = nil, clr.n_begun - 1
    if M.REASONS[begun.reason] then self.acquire:add(mark.at - begun.at) end
  else
    misfit(self, clr.entered)
  end
  if clr.open then
    misfit(self, true)
    leave_open(self, clr.open)
  end
  local count = begun and begun.count
  clr.open = { at = mark.at, reason = begun and begun.reason, count = count ~= NO_COUNT and count or nil }
  clr.entered = true
end

function MARKS.restart(self, clr, mark)
  local open = clr.open
  clr.open = nil
  if not open then return misfit(self, clr.entered) end
  if not M.REASONS[open.reason] then
    self.other = self.other + 1
    return
  end
  if not clr.resuming[mark.thread] then
    clr.n_resuming = clr.n_resuming + 1
    if clr.n_resuming > M.MAX_BEGUN then clr.resuming, clr.n_resuming = {}, 1 end
  end
  clr.resuming[mark.thread] = mark.at
  local row = { start_ns = open.at, end_ns = mark.at, reason = open.reason, count = open.count, reliable = true }
  local ns = mark.at - open.at
  self.pause:add(ns)
  self.suspended_ns = self.suspended_ns + ns
  local bucket = bucket_of(ns)
  self.buckets[bucket] = self.buckets[bucket] + 1
  keep(self, row)
  keep_longest(self.longest, row)
end

function MARKS.resumed(self, clr, mark)
  local at = clr.resuming[mark.thread]
  if not at then return end -- it was no GC's, or began before the window: nothing hangs on it
  clr.resuming[mark.thread], clr.n_resuming = nil, clr.n_resuming - 1
  self.restart:add(mark.at - at)
end

--- One event of the stream, in order of time.
---@param what "begin"|"suspended"|"restart"|"resumed"
---@param mark SuspensionMark
function Suspensions:add(what, mark)
  self.marks = self.marks + 1
  MARKS[what](self, instance_of(self, mark.clr), mark)
end

--- How long the process was fully suspended for GC up to a moment, in ns; only its differences have a meaning.
function Suspensions:suspended_until(clr, at)
  local open = instance_of(self, clr).open
  return self.suspended_ns + (open and M.REASONS[open.reason] and at - open.at or 0)
end

-- Words that make the numbers unusable; the others only make them lower bounds, or say what was left out.
local UNUSABLE <const> = {
  ["transport-loss"] = true, ["collector-loss"] = true, ["ambiguous-pairing"] = true, ["multiple-clr-instances"] = true,
  ["missing-metadata"] = true, ["no-suspension-events"] = true, ["no-gc-events"] = true,
}
local HARMLESS <const> = { ["interval-detail-capped"] = true, ["no-detected-loss"] = true }

--- available, degraded or unavailable, by the words of quality.
function M.status(quality)
  local status = "available"
  for _, word in ipairs(quality) do
    if UNUSABLE[word] then return "unavailable" end
    if not HARMLESS[word] then status = "degraded" end
  end
  return status
end

---@class StreamFacts
---@field lost integer        events that the runtime dropped
---@field dropped integer     events that we dropped
---@field ended_early boolean the stream ended before the window did, or was cut
---@field recorded boolean    from a file: what was enabled is not known
---@field collections integer seen in the other stream; 0 and no suspension is a quiet window
---@field untold integer?     collection events that could not be read

--- Closes the stream. Afterwards status, quality and the fields above are final.
---@param facts StreamFacts
function Suspensions:finish(facts)
  for _, clr in pairs(self.instances) do
    if clr.open then leave_open(self, clr.open) end
    local begun = next(clr.begun) ~= nil
    if clr.open or begun then self.censored_end = true end
    clr.open = nil
  end
  local quality = {}
  local function say(when, word)
    if when then quality[#quality + 1] = word end
  end
  say(facts.lost > 0, "transport-loss")
  say(facts.dropped > 0, "collector-loss")
  say(self.ambiguous > 0, "ambiguous-pairing")
  say(self.n_instances > 1, "multiple-clr-instances")
  say(self.without_reason, "missing-metadata")
  say(self.marks == 0 and facts.collections > 0, "no-suspension-events")
  say(self.marks == 0 and facts.collections == 0 and facts.recorded, "no-gc-events")
  say(self.censored_start, "censored-start")
  say(self.censored_end, "censored-end")
  say(facts.ended_early, "ended-early")
  say(self.dropped > 0, "interval-detail-capped")
  if #quality == 0 then quality[1] = "no-detected-loss" end
  self.quality, self.status, self.instances = quality, M.status(quality), {}
  return self
end

return M
