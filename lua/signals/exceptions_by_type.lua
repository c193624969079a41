-- SPDX-License-Identifier: MIT
-- exceptions.by-type: whether one exception type stands for most throws of a window. A grouping, never a diagnosis.
local signal = require("lunette.signal")

return signal {
  id = "exceptions.by-type", handle = { "exception-snapshot", "crash-guard-snapshot" }, order = 10,
  emit_at = 0.5, -- share of the leading type
  buckets = 5,
  limits = { min_exceptions = 5 }, -- fewer are no crowd that anything could stand out of
  of = function(artifact, self)
    local top, total = artifact.by_type[1], artifact.total
    if not top or total < self.limits.min_exceptions or top.n / total < self.emit_at then return nil end
    local buckets = {}
    for i = 1, math.min(self.buckets, #artifact.by_type) do
      local c = artifact.by_type[i]
      buckets[i] = { key = c.type, magnitude = c.n, unit = "exceptions" }
    end
    return {
      summary = ("%.0f %% of %d exceptions are of one type of %d: %s."):format(100 * top.n / total, total, #artifact.by_type, top.type),
      salience = top.n / total, buckets = buckets,
    }
  end,
  next = {
    view = { ["exception-snapshot"] = "byType", ["crash-guard-snapshot"] = "summary" }, reason = "See the counts of all types.",
  },
}
