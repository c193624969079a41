-- SPDX-License-Identifier: MIT
-- logs.errors-by-category: whether one category stands for most of the errors logged in a window. A grouping, never a diagnosis.
local hints = require("lunette.hints")

local M = {}

M.ID = "logs.errors-by-category"
M.MIN_ERRORS = 5  -- fewer are no crowd that anything could stand out of
M.EMIT_AT = 0.5   -- share of the leading category
M.BUCKETS = 5

--- The signal of a window as a list of none or one. Errors are those of level Error and Critical.
---@param artifact { categories: { category: string, errors: integer }[] }
---@param handle_id string?
---@return table[]
function M.of(artifact, handle_id)
  local rows, total = {}, 0
  for _, row in ipairs(artifact.categories) do
    if row.errors > 0 then rows[#rows + 1], total = row, total + row.errors end
  end
  table.sort(rows, function(a, b)
    if a.errors ~= b.errors then return a.errors > b.errors end
    return a.category < b.category
  end)
  local top = rows[1]
  if total < M.MIN_ERRORS or top.errors / total < M.EMIT_AT then return {} end
  local buckets = {}
  for i = 1, math.min(M.BUCKETS, #rows) do
    buckets[i] = { key = rows[i].category, magnitude = rows[i].errors, unit = "messages", handle = handle_id }
  end
  return { {
    signal = M.ID,
    summary = ("%.0f %% of %d errors are of one category: %s."):format(100 * top.errors / total, total, top.category),
    salience = top.errors / total, buckets = buckets,
    nextAction = hints.new("query_snapshot", "See the newest warnings and errors.", { handle = handle_id, view = "errors" }),
  } }
end

return M
