-- SPDX-License-Identifier: MIT
-- activities.errors-by-operation: whether one operation stands for most of the spans that failed in a window. A grouping, never a
-- diagnosis.
local hints = require("lunette.hints")

local M = {}

M.ID = "activities.errors-by-operation"
M.MIN_ERRORS = 5  -- fewer are no crowd that anything could stand out of
M.EMIT_AT = 0.5   -- share of the leading operation
M.BUCKETS = 5

--- The signal of a window as a list of none or one.
---@param artifact { by_operation: { source: string, operation: string, errors: integer }[] }
---@param handle_id string?
---@return table[]
function M.of(artifact, handle_id)
  local rows, total = {}, 0
  for _, row in ipairs(artifact.by_operation) do
    if row.errors > 0 then rows[#rows + 1], total = row, total + row.errors end
  end
  table.sort(rows, function(a, b)
    if a.errors ~= b.errors then return a.errors > b.errors end
    if a.source ~= b.source then return a.source < b.source end
    return a.operation < b.operation
  end)
  local top = rows[1]
  if total < M.MIN_ERRORS or top.errors / total < M.EMIT_AT then return {} end
  local buckets = {}
  for i = 1, math.min(M.BUCKETS, #rows) do
    buckets[i] = { key = rows[i].source .. "/" .. rows[i].operation, magnitude = rows[i].errors, unit = "spans", handle = handle_id }
  end
  return { {
    signal = M.ID,
    summary = ("%.0f %% of %d failed spans are of one operation: %s of %s."):format(100 * top.errors / total, total, top.operation,
      top.source),
    salience = top.errors / total, buckets = buckets,
    nextAction = hints.new("query_snapshot", "See the counts of all operations.", { handle = handle_id, view = "byOperation" }),
  } }
end

return M
