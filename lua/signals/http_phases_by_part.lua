-- SPDX-License-Identifier: MIT
-- http-phases.by-part: whether one phase, or one wait between phases, stands for most of the time of requests. A grouping, never a
-- diagnosis.
local hints = require("lunette.hints")

local M = {}

M.ID = "http-phases.by-part"
M.MIN_REQUESTS = 5     -- fewer are no crowd that anything could stand out of
M.MIN_TOTAL_NS = 50e6  -- less time than this in all is no matter, wherever it goes
M.EMIT_AT = 0.5
M.BUCKETS = 5

--- The signal of a window as a list of none or one.
---@param artifact table
---@param handle_id string?
---@return table[]
function M.of(artifact, handle_id)
  local top = artifact.parts[1]
  if not top or top.kind == "setup" or artifact.ended < M.MIN_REQUESTS or artifact.total.total < M.MIN_TOTAL_NS then return {} end
  if top.share < M.EMIT_AT then return {} end
  local buckets = {}
  for _, part in ipairs(artifact.parts) do
    if part.kind ~= "setup" and #buckets < M.BUCKETS then
      buckets[#buckets + 1] = { key = part.name, magnitude = part.total / 1e6, unit = "ms", handle = handle_id }
    end
  end
  return { {
    signal = M.ID,
    summary = ("%.0f %% of the %.1f ms that %d outgoing requests took went to %s."):format(100 * top.share, artifact.total.total / 1e6,
      artifact.ended, top.name),
    salience = top.share, buckets = buckets,
    nextAction = hints.new("query_snapshot", "See phases and waits.", { handle = handle_id, view = "byPhase" }),
  } }
end

return M
