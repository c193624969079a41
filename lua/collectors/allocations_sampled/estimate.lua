-- SPDX-License-Identifier: MIT
-- From a random sample of allocations to all of them, and how far off that may be. The runtime draws every allocated byte with
-- P = 1/102400 and tells of an object once at least one of its bytes was drawn: an object of s bytes with probability q = 1 - (1 - P)^s.
-- A sampled object therefore stands for 1/q objects and s/q bytes (the runtime's design of randomized allocation sampling).
local M = {}

M.SAMPLING_BYTES = 102400                    -- one sample in so many bytes, on average
M.CONFIDENCE_PERCENT = 99                    -- how often the truth lies within the bounds, at least
local Z <const> = 2.5758293035489            -- standard normal quantile of 0.995
local LN_TAIL <const> = 5.2983173665480      -- -ln(0.005)

--- -ln(1 - P): (1 - P)^s is e^(-RATE * s).
M.RATE = -math.log(1 - 1 / M.SAMPLING_BYTES)

--- How many objects a sampled one of that size stands for.
---@param size number   bytes
function M.weight(size) return 1 / (1 - math.exp(-M.RATE * size)) end

-- The quantile of a gamma distribution with scale 1 (Wilson and Hilferty): good to 1 % from shape 2 on; below that the lower tail comes out
-- too low, which only makes the bounds wider.
local function gamma_quantile(shape, z)
  local root = 1 - 1 / (9 * shape) + z / (3 * math.sqrt(shape))
  return root <= 0 and 0 or shape * root ^ 3
end

--- Bounds of a weighted sum of rare, independent draws (Fay and Feuer): the gamma distributions with its mean and variance, the upper one
--- as if one more of the heaviest had been drawn.
---@param sum number       of what the samples stand for
---@param variance number  of that sum
---@param heaviest number  what a single sample stands for at most
---@param seen number      what is certain: of the sampled objects themselves
---@return number low, number high
function M.bounds(sum, variance, heaviest, seen)
  if sum <= 0 then return 0, 0 end
  local low = variance <= 0 and sum or variance / sum * gamma_quantile(sum * sum / variance, -Z)
  local mean, spread = sum + heaviest, variance + heaviest * heaviest
  return math.max(low, seen), spread / mean * gamma_quantile(mean * mean / spread, Z)
end

---@class AllocationSums   of the samples of one type, site or window: what the declaration keeps
---@field n integer        samples
---@field objects number   sum of w
---@field objects_var number   sum of w^2 - w
---@field objects_max number   largest w
---@field bytes number     sum of s w
---@field bytes_var number sum of s^2 (w^2 - w)
---@field bytes_max number largest s w
---@field seen number      sum of s

---@class AllocationEstimate
---@field samples integer
---@field bytes integer
---@field bytes_low integer
---@field bytes_high integer
---@field objects integer
---@field objects_low integer
---@field objects_high integer

local SMALLEST <const> = 24 -- bytes of the smallest object

local function whole(x) return math.floor(x + 0.5) end

--- What a type or site without a single sample allocated at most, in bytes.
function M.detection_limit() return math.ceil(LN_TAIL * M.SAMPLING_BYTES) end

--- The estimate of what was allocated, with its bounds.
---@param sums AllocationSums
---@return AllocationEstimate
function M.of(sums)
  if sums.n == 0 then
    local most = M.detection_limit()
    return { samples = 0, bytes = 0, bytes_low = 0, bytes_high = most, objects = 0, objects_low = 0, objects_high = most // SMALLEST }
  end
  local bytes_low, bytes_high = M.bounds(sums.bytes or 0, sums.bytes_var or 0, sums.bytes_max or 0, sums.seen or 0)
  local objects_low, objects_high = M.bounds(sums.objects or 0, sums.objects_var or 0, sums.objects_max or 0, sums.n)
  return {
    samples = sums.n, bytes = whole(sums.bytes or 0), bytes_low = math.floor(bytes_low), bytes_high = math.ceil(bytes_high),
    objects = whole(sums.objects or 0), objects_low = math.floor(objects_low), objects_high = math.ceil(objects_high),
  }
end

return M
