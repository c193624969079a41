-- SPDX-License-Identifier: MIT
-- correlation.thread-overlap: threads that own a lock which others want, and are blocked. An intersection of thread ids, no cause.
local signal = require("lunette.signal")

return signal {
  id = "correlation.thread-overlap", handle = "thread-snapshot", order = 30, emit_at = 0, buckets = 10,
  of = function(artifact, self)
    local owners, n, buckets, blocked = {}, 0, {}, 0
    for _, lock in ipairs(artifact.locks) do
      if lock.waiters > 0 and lock.owner_id then
        if not owners[lock.owner_id] then n = n + 1 end
        owners[lock.owner_id] = (owners[lock.owner_id] or 0) + lock.waiters
      end
    end
    for _, thread in ipairs(artifact.threads) do
      if owners[thread.id] and thread.blocked then
        blocked = blocked + 1
        if #buckets < self.buckets then
          buckets[#buckets + 1] = { key = tostring(thread.id), magnitude = owners[thread.id], unit = "threads" }
        end
      end
    end
    if blocked == 0 then return nil end
    return {
      salience = blocked / n, buckets = buckets,
      summary = ("%d of %d owners of contended locks are blocked themselves."):format(blocked, n),
    }
  end,
  next = { view = "lock-graph", reason = "See what they hold and want." },
}
