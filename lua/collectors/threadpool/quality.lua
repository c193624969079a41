-- SPDX-License-Identifier: MIT
-- How far a thread pool window may be relied on: what went wrong with it, cause by cause, and which conclusions it therefore supports.
local M = {}

M.IOCP, M.SETTINGS, M.STACKS, M.WORK_ITEMS = "iocp-thread-counts", "effective-settings", "enqueue-stacks", "work-item-events"

---@class PoolQuality
---@field transport_loss boolean?        events lost between the target and us; nil: not known
---@field processing_failure boolean     events that could not be read
---@field collector_eviction boolean     a cap of ours dropped something
---@field inference_used boolean         some counts were carried forward or inferred
---@field window_limited boolean         the window ended early, or began before the pool said anything
---@field unavailable string[]           what this runtime did not tell
---@field supports_positive boolean      what was kept may be relied on
---@field supports_absence boolean       "none", and counts as complete
---@field supports_regression boolean    comparisons with another window

--- Judges a window.
---@param seen { lost: integer?, errors: integer, evicted: boolean, inferred: boolean, ended_early: boolean, late: boolean,
---  measured: boolean, recorded: boolean?, unavailable: string[] }   recorded: a file, which may lack the pool's events
---@return PoolQuality
function M.judge(seen)
  local q = {
    processing_failure = seen.errors > 0, collector_eviction = seen.evicted, inference_used = seen.inferred,
    window_limited = seen.ended_early or seen.late, unavailable = seen.unavailable,
  }
  if seen.lost ~= nil then q.transport_loss = seen.lost > 0 end
  local whole = q.transport_loss == false and not q.processing_failure
  q.supports_positive = not q.processing_failure
  local asked = seen.measured or not seen.recorded
  q.supports_absence = whole and asked and not q.collector_eviction and not seen.ended_early
  q.supports_regression = q.supports_absence and not q.window_limited and seen.measured
  return q
end

return M
