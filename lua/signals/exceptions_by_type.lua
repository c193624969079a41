-- SPDX-License-Identifier: MIT
-- exceptions.by-type: whether one exception type stands for most throws of a window. A grouping, never a diagnosis.
local hints = require("lunette.hints")

local M = {}

M.ID = "exceptions.by-type"
M.MIN_EXCEPTIONS = 5 -- fewer are no crowd that anything could stand out of
M.EMIT_AT = 0.5      -- share of the leading type
M.BUCKETS = 5

--- The signal of a window as a list of none or one.
---@param artifact { total: integer, by_type: { type: string, n: integer }[] }
---@param handle_id string?
---@param view string   where the counts are
---@return table[]
function M.of(artifact, handle_id, view)
  local top = artifact.by_type[1]
  if not top or artifact.total < M.MIN_EXCEPTIONS or top.n / artifact.total < M.EMIT_AT then return {} end
  local buckets = {}
  for i = 1, math.min(M.BUCKETS, #artifact.by_type) do
    local c = artifact.by_type[i]
    buckets[i] = { key = c.type, magnitude = c.n, unit = "exceptions", handle = handle_id }
  end
  return { {
    signal = M.ID,
    summary = ("%.0f %% of %d exceptions are of one type of %d: %s."):format(100 * top.n / artifact.total, artifact.total,
      #artifact.by_type, top.type),
    salience = top.n / artifact.total, buckets = buckets,
    nextAction = hints.new("query_snapshot", "See the counts of all types.", { handle = handle_id, view = view }),
  } }
end

return M
