-- SPDX-License-Identifier: MIT
-- activities.errors-by-operation: whether one operation stands for most of the spans that failed in a window. A grouping, never a
-- diagnosis.
local signal = require("lunette.signal")

local function most_errors_first(a, b)
  if a.errors ~= b.errors then return a.errors > b.errors end
  if a.source ~= b.source then return a.source < b.source end
  return a.operation < b.operation
end

return signal {
  id = "activities.errors-by-operation", handle = "activities", order = 10,
  emit_at = 0.5, -- share of the leading operation
  buckets = 5,
  limits = { min_errors = 5 }, -- failed spans: fewer are no crowd that anything could stand out of
  of = function(artifact, self)
    local rows, total = {}, 0
    for _, row in ipairs(artifact.by_operation) do
      if row.errors > 0 then rows[#rows + 1], total = row, total + row.errors end
    end
    if total < self.limits.min_errors then return nil end
    table.sort(rows, most_errors_first)
    local top, buckets = rows[1], {}
    if top.errors / total < self.emit_at then return nil end
    for i = 1, math.min(self.buckets, #rows) do
      buckets[i] = { key = rows[i].source .. "/" .. rows[i].operation, magnitude = rows[i].errors, unit = "spans" }
    end
    return {
      summary = ("%.0f %% of %d failed spans are of one operation: %s of %s."):format(100 * top.errors / total, total, top.operation,
        top.source),
      salience = top.errors / total, buckets = buckets,
    }
  end,
  next = { view = "byOperation", reason = "See the counts of all operations." },
}
