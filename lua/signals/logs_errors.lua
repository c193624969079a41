-- SPDX-License-Identifier: MIT
-- logs.errors-by-category: whether one category stands for most of the errors logged in a window. A grouping, never a diagnosis.
local signal = require("lunette.signal")

local function most_errors_first(a, b)
  if a.errors ~= b.errors then return a.errors > b.errors end
  return a.category < b.category
end

return signal {
  id = "logs.errors-by-category", handle = "log-snapshot", order = 10,
  emit_at = 0.5, -- share of the leading category
  buckets = 5,
  limits = { min_errors = 5 }, -- messages of level Error and Critical: fewer are no crowd that anything could stand out of
  of = function(artifact, self)
    local rows, total = {}, 0
    for _, row in ipairs(artifact.categories) do
      if row.errors > 0 then rows[#rows + 1], total = row, total + row.errors end
    end
    if total < self.limits.min_errors then return nil end
    table.sort(rows, most_errors_first)
    local top, buckets = rows[1], {}
    if top.errors / total < self.emit_at then return nil end
    for i = 1, math.min(self.buckets, #rows) do
      buckets[i] = { key = rows[i].category, magnitude = rows[i].errors, unit = "messages" }
    end
    return {
      summary = ("%.0f %% of %d errors are of one category: %s."):format(100 * top.errors / total, total, top.category),
      salience = top.errors / total, buckets = buckets,
    }
  end,
  next = { view = "errors", reason = "See the newest warnings and errors." },
}
