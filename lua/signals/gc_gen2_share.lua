-- SPDX-License-Identifier: MIT
-- gc.gen2-share: which share of the collections were of generation 2, against a normal that generation 0 dominates. A grouping, never a
-- diagnosis.
local hints = require("lunette.hints")

local M = {}

M.ID = "gc.gen2-share"
M.EMIT_AT = 0.2
M.MIN_COLLECTIONS = 3 -- a share of one or two says nothing
local LOSS <const> = { ["transport-loss"] = true, ["collector-loss"] = true, ["pairing-loss"] = true }

--- The signal of a window as a list of none or one. Silent after loss: the ratio would be wrong.
---@param artifact GcArtifact
---@param handle_id string?
---@return table[]
function M.of(artifact, handle_id)
  local c = artifact.collections
  for _, word in ipairs(c.quality) do
    if LOSS[word] then return {} end
  end
  local forced = artifact.induced and artifact.induced.collections or 0 -- by us: no finding
  local gen2, total = (c.generations[2] or 0) - forced, c.total - forced
  if total < M.MIN_COLLECTIONS or gen2 / total < M.EMIT_AT then return {} end
  return { {
    signal = M.ID, summary = ("%d of %d collections were of generation 2."):format(gen2, total), salience = gen2 / total,
    buckets = { { key = "gen2", magnitude = gen2, unit = "collections", handle = handle_id } },
    nextAction = hints.new("query_snapshot", "See the collections by generation.", { handle = handle_id, view = "byGeneration" }),
  } }
end

return M
