-- SPDX-License-Identifier: MIT
-- What the pool's sizing decided: each adjustment as the runtime reported it. A reason is never inferred; the count before one is that of
-- the adjustment before it.
local M = {}

M.STARVATION, M.BLOCKING = "Starvation", "CooperativeBlocking" -- the two that say why work waits
local UNKNOWN <const> = "Unknown"
local OBSERVED <const>, UNRECOGNIZED <const>, NEIGHBOR <const> = "runtime-observed", "runtime-unrecognized", "inferred-from-neighbor"

local REASONS <const> = {
  [0] = "Warmup", "Initializing", "RandomMove", "ClimbingMove", "ChangePoint", "Stabilizing", M.STARVATION, "ThreadTimedOut", M.BLOCKING,
}

--- The name of a reason, and its provenance; nil for a missing one, which is nothing that was observed.
---@param number integer?
---@return string name, string? provenance
function M.reason(number)
  if number == nil then return UNKNOWN, nil end
  if REASONS[number] then return REASONS[number], OBSERVED end
  return tostring(number), UNRECOGNIZED
end

---@class PoolAdjustment
---@field at_ns integer
---@field reason string
---@field reason_provenance string?
---@field old_count integer?
---@field new_count integer?
---@field throughput number?   work items a second, on average

--- The adjustments in order of time.
---@param last { rows: table[] }   rows with at_ns, reason, new_count, throughput
---@return PoolAdjustment[]
function M.list(last)
  local list = {}
  for i, row in ipairs(last.rows) do
    local reason, provenance = M.reason(row.reason)
    local before = list[i - 1]
    list[i] = {
      at_ns = row.at_ns, reason = reason, reason_provenance = provenance, old_count = before and before.new_count,
      old_provenance = before and before.new_count and NEIGHBOR or nil, new_count = row.new_count,
      new_provenance = row.new_count and OBSERVED or nil, throughput = row.throughput,
    }
  end
  return list
end

--- How often the runtime gave each reason, by its name: exact, also when the list of adjustments is not.
---@param group { rows: table[] }   by the number of the reason, with n
---@return table<string, integer>
function M.counts(group)
  local counts = {}
  for _, row in ipairs(group.rows) do counts[M.reason(row.key)] = row.n end
  return counts
end

return M
