-- SPDX-License-Identifier: MIT
-- gc.fully-suspended-share.v2: which share of the window the program stood still for GC. A grouping, never a diagnosis.
local hints = require("lunette.hints")
local snapshot = require("collectors.gc.snapshot")

local M = {}

M.ID = "gc.fully-suspended-share.v2"
M.EMIT_AT = 0.02
M.BUCKETS = 3

--- The signal of a window as a list of none or one. Silent without usable suspension evidence.
---@param artifact GcArtifact
---@param handle_id string?
---@return table[]
function M.of(artifact, handle_id)
  local percent = snapshot.suspended_percent(artifact)
  if not percent or percent / 100 < M.EMIT_AT then return {} end
  local s, buckets = artifact.suspensions, {}
  for i, row in ipairs(snapshot.longest(artifact, M.BUCKETS)) do
    buckets[i] = {
      key = ("suspension at %.3f s"):format(row.start_ns / 1e9), magnitude = (row.end_ns - row.start_ns) / 1e6, unit = "ms",
      handle = handle_id,
    }
  end
  return { {
    signal = M.ID,
    summary = ("%s%.1f %% of the window was fully suspended for GC, in %d suspensions; the longest took %.1f ms."):format(
      s.status == "degraded" and "At least " or "", percent, s.pause.n, s.pause.max_ns / 1e6),
    salience = math.min(1, percent / 100), buckets = buckets,
    nextAction = hints.new("query_snapshot", "See the longest suspensions.", { handle = handle_id, view = "longestPauses" }),
  } }
end

return M
