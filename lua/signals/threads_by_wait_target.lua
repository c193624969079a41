-- SPDX-License-Identifier: MIT
-- threads.by-wait-target: whether most threads that wait for a lock wait for the same one.
local signal = require("lunette.signal")

return signal {
  id = "threads.by-wait-target", handle = "thread-snapshot", order = 20, buckets = 5, emit_at = 0.5, -- share of all waiters
  limits = { min_waiters = 2 },
  of = function(artifact, self)
    local list, all = {}, 0
    for _, lock in ipairs(artifact.locks) do
      if lock.waiters > 0 then
        list[#list + 1] = lock
        all = all + lock.waiters
      end
    end
    table.sort(list, function(a, b)
      if a.waiters ~= b.waiters then return a.waiters > b.waiters end
      return a.object < b.object
    end)
    local first = list[1]
    if not first or all < self.limits.min_waiters or first.waiters / all < self.emit_at then return nil end
    local buckets = {}
    for i = 1, math.min(self.buckets, #list) do
      buckets[i] = { key = ("%s %s"):format(list[i].type or "object", list[i].object), magnitude = list[i].waiters, unit = "threads" }
    end
    return {
      salience = first.waiters / all, buckets = buckets,
      summary = ("%d of %d threads that wait for a lock wait for one %s."):format(first.waiters, all, first.type or "object"),
    }
  end,
  next = { view = "lock-graph", reason = "See who holds it." },
}
