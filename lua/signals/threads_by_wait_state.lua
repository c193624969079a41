-- SPDX-License-Identifier: MIT
-- threads.by-wait-state: whether many threads share one kind of wait. Threads that are parked for want of work are none.
local signal = require("lunette.signal")

return signal {
  id = "threads.by-wait-state", handle = "thread-snapshot", order = 10, buckets = 5,
  emit_at = 0.25, -- share of all threads that are alive
  limits = { min_threads = 3 },
  of = function(artifact, self)
    local by_reason, list, alive, blocked = {}, {}, 0, 0
    for _, thread in ipairs(artifact.threads) do
      alive = alive + (thread.alive and 1 or 0)
      if thread.blocked then
        blocked = blocked + 1
        if not by_reason[thread.reason] then
          by_reason[thread.reason] = { key = thread.reason, n = 0 }
          list[#list + 1] = by_reason[thread.reason]
        end
        by_reason[thread.reason].n = by_reason[thread.reason].n + 1
      end
    end
    table.sort(list, function(a, b)
      if a.n ~= b.n then return a.n > b.n end
      return a.key < b.key
    end)
    local first = list[1]
    if not first or first.n < self.limits.min_threads or first.n / alive < self.emit_at then return nil end
    local buckets = {}
    for i = 1, math.min(self.buckets, #list) do buckets[i] = { key = list[i].key, magnitude = list[i].n, unit = "threads" } end
    return {
      salience = first.n / blocked, buckets = buckets,
      summary = ("%d of %d blocked threads share one wait: %s."):format(first.n, blocked, first.key),
    }
  end,
  next = { view = "top-blocked", reason = "See them." },
}
