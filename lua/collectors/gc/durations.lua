-- SPDX-License-Identifier: MIT
-- Durations of a whole window in bounded memory: how many, sum, longest, and percentiles from buckets of relative width 1/64.
local M = {}

M.ERROR = 1 / 128 -- of a percentile, relative
local SUB_BITS <const> = 6
local SUB <const> = 1 << SUB_BITS

---@class Durations
---@field n integer
---@field sum_ns integer
---@field max_ns integer   0 while there is none
local Durations = {}
Durations.__index = Durations

function M.new() return setmetatable({ n = 0, sum_ns = 0, max_ns = 0, counts = {} }, Durations) end

-- Below SUB every value has a bucket of its own; above, each power of two has SUB of them.
local function bucket_of(ns)
  if ns < SUB then return ns end
  local bits = math.floor(math.log(ns, 2))
  if ns >> bits == 0 then bits = bits - 1 elseif ns >> bits > 1 then bits = bits + 1 end -- the logarithm is rounded
  return bits * SUB + ((ns >> (bits - SUB_BITS)) & (SUB - 1))
end

--- The middle of a bucket.
local function value_of(bucket)
  if bucket < SUB then return bucket end
  local bits, part = bucket // SUB, bucket % SUB
  local width = 1 << (bits - SUB_BITS)
  return (1 << bits) + part * width + width // 2
end

---@param ns integer   below 0, as of events out of order, counts as 0
function Durations:add(ns)
  if ns < 0 then ns = 0 end
  self.n, self.sum_ns = self.n + 1, self.sum_ns + ns
  if ns > self.max_ns then self.max_ns = ns end
  local bucket = bucket_of(ns)
  self.counts[bucket] = (self.counts[bucket] or 0) + 1
end

--- The smallest value that p percent of all do not exceed; nil when there is none.
---@param p number
---@return integer? ns
function Durations:percentile(p)
  if self.n == 0 then return nil end
  local buckets, rank = {}, math.max(1, math.ceil(self.n * p / 100))
  for bucket in pairs(self.counts) do buckets[#buckets + 1] = bucket end
  table.sort(buckets)
  local seen = 0
  for _, bucket in ipairs(buckets) do
    seen = seen + self.counts[bucket]
    if seen >= rank then return math.min(value_of(bucket), self.max_ns) end
  end
  return self.max_ns
end

return M
