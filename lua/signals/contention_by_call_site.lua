-- SPDX-License-Identifier: MIT
-- contention.by-call-site: whether one call site stands for most of the time that threads waited for locks. A grouping, never a diagnosis.
local frames = require("collectors.waits.frames")
local hints = require("lunette.hints")

local M = {}

M.ID = "contention.by-call-site"
M.MIN_EVENTS = 5       -- fewer are no crowd that anything could stand out of
M.MIN_TOTAL_NS = 10e6  -- less waiting than this in all is no matter, wherever it is
M.EMIT_AT = 0.5        -- share of the leading site's time
M.BUCKETS = 5

--- The signal of a window as a list of none or one.
---@param artifact ContentionArtifact
---@param handle_id string?
---@return table[]
function M.of(artifact, handle_id)
  local top = artifact.sites[1]
  if artifact.total < M.MIN_EVENTS or artifact.total_ns < M.MIN_TOTAL_NS or not top or top.site.method == frames.UNKNOWN then return {} end
  local share = top.total_ns / artifact.total_ns
  if share < M.EMIT_AT then return {} end
  local buckets = {}
  for i = 1, math.min(M.BUCKETS, #artifact.sites) do
    local s = artifact.sites[i]
    buckets[i] = { key = s.site.method, magnitude = s.total_ns / 1e6, unit = "ms", handle = handle_id }
  end
  return { {
    signal = M.ID,
    summary = ("%.0f %% of %.1f ms of waiting for locks is at one call site of %d: %s."):format(100 * share, artifact.total_ns / 1e6,
      #artifact.sites, top.site.method),
    salience = share, buckets = buckets,
    nextAction = hints.new("query_snapshot", "See which owners make others wait.", { handle = handle_id, view = "byBlame" }),
  } }
end

return M
