-- SPDX-License-Identifier: MIT
-- The collection stream of GC measurement v2: GCStart paired with GCEnd by Count and ClrInstanceID. Elapsed is no pause: a background
-- collection runs beside the program for most of its time.
local durations = require("collectors.gc.durations")

local M = {}

M.BUCKETS = { "gen0", "gen1", "gen2", "background" }
M.MAX_OPEN = 64      -- a runtime has two under way at most; more only after loss
M.MAX_INSTANCES = 16 -- runtimes told apart
M.MAX_GENERATION = 4 -- a number above is none
M.MAX_NAMED = 31     -- of the reasons and types that are told by number when they have no name
local BACKGROUND <const>, FULL <const> = 1, 2 -- a GCType, a generation

-- The words of the runtime's trace library, which the answers use.
local REASONS <const> = {
  [0] = "AllocSmall", "Induced", "LowMemory", "Empty", "AllocLarge", "OutOfSpaceSOH", "OutOfSpaceLOH", "InducedNotForced", "Internal",
  "InducedLowMemory", "InducedCompacting", "LowMemoryHost", "PMFullGC", "LowMemoryHostBlocking", "BgcTuningSOH", "BgcTuningLOH",
  "BgcStepping", "InducedAggressive",
}
local TYPES <const> = { [0] = "NonConcurrentGC", "BackgroundGC", "ForegroundGC" }

--- The name of a GCReason.
function M.reason(n) return REASONS[n] or n and n <= M.MAX_NAMED and ("Reason%d"):format(n) or "Unknown" end
--- The name of a GCType.
function M.type(n) return TYPES[n] or n and n <= M.MAX_NAMED and ("Type%d"):format(n) or "Unknown" end

---@class Collection
---@field start_ns integer
---@field end_ns integer
---@field generation integer
---@field reason string
---@field type string       what was done, not only planned
---@field number integer    the runtime's count

local Collections = {}
Collections.__index = Collections

---@param max_rows integer     collections kept as rows
---@param suspensions table    the other stream, for how much of a background collection ran beside the program
function M.new(max_rows, suspensions)
  local self = {
    max_rows = max_rows, suspensions = suspensions, rows = {}, dropped = 0, elapsed = durations.new(), generations = {}, buckets = {},
    reasons = {}, instances = {}, n_instances = 0, replanned = 0, lost = 0, open = 0, censored_start = 0, concurrent_ns = 0,
  }
  for _, name in ipairs(M.BUCKETS) do self.buckets[name] = durations.new() end
  return setmetatable(self, Collections)
end

local function instance_of(self, clr)
  local found = self.instances[clr] or self.n_instances >= M.MAX_INSTANCES and self.instances[self.last_instance]
  if not found then
    found = { open = {}, n_open = 0, restarts = 0 } -- first: least count seen; last_ns, last_full_ns: the latest start, of gen2
    self.instances[clr], self.n_instances, self.last_instance = found, self.n_instances + 1, clr
  end
  return found
end

---@param mark { at: integer, clr: integer, count: integer, depth: integer?, reason: integer?, type: integer? }
function Collections:start(mark)
  local clr = instance_of(self, mark.clr)
  if clr.open[mark.count] then
    self.lost = self.lost + 1
  else
    clr.n_open = clr.n_open + 1
    if clr.n_open > M.MAX_OPEN then
      self.lost = self.lost + clr.n_open - 1
      clr.open, clr.n_open = {}, 1
    end
  end
  clr.first = math.min(clr.first or mark.count, mark.count)
  clr.last_ns = mark.at
  if (mark.depth or 0) >= FULL then clr.last_full_ns = mark.at end
  clr.open[mark.count] = {
    at = mark.at, generation = math.min(mark.depth or 0, M.MAX_GENERATION), reason = mark.reason, type = mark.type or 0,
    restarts = clr.restarts,
    suspended_ns = self.suspensions:suspended_until(mark.clr, mark.at),
  }
end

--- The threads were let go: a collection that was planned as background and is under way runs as one from here.
function Collections:restart(mark)
  local clr = instance_of(self, mark.clr)
  clr.restarts = clr.restarts + 1
end

-- The type says the plan; one that ended within the suspension that it began in was a blocking one.
local function ran_in_background(self, clr, begun)
  if begun.type ~= BACKGROUND then return false end
  if self.suspensions.marks == 0 then return true end -- nothing to tell by
  return clr.restarts > begun.restarts
end

---@param mark { at: integer, clr: integer, count: integer }
function Collections:stop(mark)
  local clr = instance_of(self, mark.clr)
  local begun = clr.open[mark.count]
  if not begun then
    if clr.first == nil or mark.count < clr.first then
      self.censored_start = self.censored_start + 1
    else
      self.lost = self.lost + 1
    end
    return
  end
  clr.open[mark.count], clr.n_open = nil, clr.n_open - 1
  local background, ns = ran_in_background(self, clr, begun), mark.at - begun.at
  if begun.type == BACKGROUND and not background then self.replanned = self.replanned + 1 end
  local type = begun.type == BACKGROUND and not background and 0 or begun.type
  self.elapsed:add(ns)
  self.generations[begun.generation] = (self.generations[begun.generation] or 0) + 1
  local reason = M.reason(begun.reason)
  self.reasons[reason] = (self.reasons[reason] or 0) + 1
  local bucket = background and "background" or "gen" .. math.min(begun.generation, 2)
  self.buckets[bucket]:add(ns)
  if background then
    local suspended = self.suspensions:suspended_until(mark.clr, mark.at) - begun.suspended_ns
    self.concurrent_ns = self.concurrent_ns + math.max(0, ns - suspended)
  end
  if #self.rows < self.max_rows then
    self.rows[#self.rows + 1] = {
      start_ns = begun.at, end_ns = mark.at, generation = begun.generation, reason = reason, type = M.type(type), number = mark.count,
    }
  else
    self.dropped = self.dropped + 1
  end
end

-- Under way at the end of the window, or was its end lost? Beside a background collection others of generations 0 and 1 begin, beside any
-- other none.
local function was_lost(clr, begun)
  if begun.type == BACKGROUND then return (clr.last_full_ns or 0) > begun.at end
  return clr.last_ns > begun.at
end

--- Closes the stream; then quality is final and rows are in order of start.
---@param facts StreamFacts
function Collections:finish(facts)
  for _, clr in pairs(self.instances) do
    for _, begun in pairs(clr.open) do
      if was_lost(clr, begun) then self.lost = self.lost + 1 else self.open = self.open + 1 end
    end
  end
  table.sort(self.rows, function(a, b)
    if a.start_ns ~= b.start_ns then return a.start_ns < b.start_ns end
    return a.number < b.number
  end)
  local quality = {}
  local function say(when, word)
    if when then quality[#quality + 1] = word end
  end
  say(facts.lost > 0, "transport-loss")
  say(facts.dropped > 0, "collector-loss")
  say(self.lost > 0, "pairing-loss")
  say((facts.untold or 0) > 0, "missing-metadata")
  say(self.censored_start > 0, "censored-start")
  say(self.open > 0, "censored-end")
  say(facts.ended_early, "ended-early")
  say(self.dropped > 0, "collection-detail-capped")
  if #quality == 0 then quality[1] = "no-detected-loss" end
  self.quality, self.instances, self.suspensions = quality, {}, nil
  self.total = self.elapsed.n
  return self
end

return M
