-- SPDX-License-Identifier: MIT
-- db.by-command: one statement took most of the time of all commands. A grouping, never a diagnosis.
local signal = require("lunette.signal")

return signal {
  id = "db.by-command", handle = "db-snapshot", order = 20,
  emit_at = 0.5,               -- share of the leading statement in the time of all
  limits = { min_ms = 50 },    -- of all commands together: less is no load
  of = function(artifact, self)
    local all, list = 0, artifact.commands
    for _, c in ipairs(list) do all = all + c.total_ms end
    local top = list[1]
    if #list < 2 or all < self.limits.min_ms or top.total_ms / all < self.emit_at then return nil end
    local buckets = {}
    for i, c in ipairs(list) do buckets[i] = { key = c.sql, magnitude = c.total_ms, unit = "ms" } end
    return {
      summary = ("%.0f %% of the %.0f ms of all commands were of one statement, run %d times: %s."):format(100 * top.total_ms / all, all,
        top.n, top.sql:sub(1, 120)),
      salience = top.total_ms / all, buckets = buckets,
    }
  end,
  next = { view = "byCommand", reason = "See the statements by the time they took.", arguments = { topN = 25 } },
}
