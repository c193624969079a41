-- SPDX-License-Identifier: MIT
-- waits.by-call-site: whether one call site stands for most of the time that threads waited, for handles and for locks, those aside that
-- wait for want of work. A grouping, never a diagnosis.
local frames = require("collectors.waits.frames")
local hints = require("lunette.hints")
local wire = require("collectors.wait_handles.wire")

local M = {}

M.ID = "waits.by-call-site"
M.MIN_WAITS = 5        -- fewer are no crowd that anything could stand out of
M.MIN_TOTAL_NS = 10e6  -- less waiting than this in all is no matter, wherever it is
M.EMIT_AT = 0.5        -- share of the leading site's time
M.BUCKETS = 5

local function weight(g) return g.total_ns + g.still_ns end

--- The signal of a window as a list of none or one.
---@param artifact WaitArtifact
---@param handle_id string?
---@return table[]
function M.of(artifact, handle_id)
  local top, all, n = artifact.where[1], wire.busy_ns(artifact), 0
  for _, g in ipairs(artifact.where) do n = n + (g.idle and 0 or g.n + g.still) end
  if not top or top.idle or top.site.method == frames.UNKNOWN or n < M.MIN_WAITS or all < M.MIN_TOTAL_NS then return {} end
  local share = weight(top) / all
  if share < M.EMIT_AT then return {} end
  local buckets = {}
  for _, g in ipairs(artifact.where) do
    if not g.idle and #buckets < M.BUCKETS then
      buckets[#buckets + 1] = { key = g.site.method, magnitude = weight(g) / 1e6, unit = "ms", handle = handle_id }
    end
  end
  return { {
    signal = M.ID,
    summary = ("%.0f %% of %.1f ms of waiting is at one call site: %s (%s)."):format(100 * share, all / 1e6, top.site.method, top.reason),
    salience = share, buckets = buckets,
    nextAction = hints.new("query_snapshot", "See where threads wait.", { handle = handle_id, view = "whereThreadsWait" }),
  } }
end

return M
