-- SPDX-License-Identifier: MIT
-- Thread counts by the second, each with where it comes from. The runtime tells the count only when a thread starts, stops or goes to wait:
-- before the first such event nothing is known, between two of them the last one holds.
local M = {}

local OBSERVED <const>, CARRIED <const> = "runtime-observed", "carried-forward"

---@class ThreadCountBucket
---@field at_ns integer      start of the second, since the start of the window
---@field count integer
---@field provenance string

---@class ThreadCounts
---@field buckets ThreadCountBucket[]   from the first measurement to the end of the window
---@field latest integer?
---@field peak integer?                 of all measurements, also those within a second
---@field carried boolean               some buckets had no measurement of their own

--- Fills the seconds between measurements.
---@param timeline { every_ns: integer, buckets: table[] }   with `last` and `peak` a bucket
---@param end_ns integer                                     the end of the window
---@return ThreadCounts
function M.fill(timeline, end_ns)
  local counts = { buckets = {}, carried = false }
  local every = timeline.every_ns
  for _, bucket in ipairs(timeline.buckets) do
    if bucket.last then
      local before = counts.buckets[#counts.buckets]
      while before and before.at_ns + every < bucket.at_ns do
        before = { at_ns = before.at_ns + every, count = before.count, provenance = CARRIED }
        counts.buckets[#counts.buckets + 1], counts.carried = before, true
      end
      counts.buckets[#counts.buckets + 1] = { at_ns = bucket.at_ns, count = bucket.last, provenance = OBSERVED }
      counts.latest, counts.peak = bucket.last, math.max(counts.peak or 0, bucket.peak or bucket.last)
    end
  end
  local last = counts.buckets[#counts.buckets]
  while last and last.at_ns + every < end_ns do
    last = { at_ns = last.at_ns + every, count = last.count, provenance = CARRIED }
    counts.buckets[#counts.buckets + 1], counts.carried = last, true
  end
  return counts
end

return M
