-- SPDX-License-Identifier: MIT
-- threadpool.starvation: the runtime added pool threads because queued work made no progress, or because pool threads blocked on tasks.
-- Only reasons that the runtime gave count; how the pool grew is no evidence. CooperativeBlocking is the reason for threads that are added
-- while others block, and for taking them back.
local signal = require("lunette.signal")

return signal {
  id = "threadpool.starvation", handle = "threadpool-snapshot", order = 10, emit_at = 1, -- changes of the pool's size
  of = function(artifact, self)
    local causal = artifact.starvation + artifact.blocking
    if causal < self.emit_at then return nil end
    local buckets = {}
    for _, bucket in ipairs { { "Starvation", artifact.starvation }, { "CooperativeBlocking", artifact.blocking } } do
      if bucket[2] > 0 then buckets[#buckets + 1] = { key = bucket[1], magnitude = bucket[2], unit = "adjustments" } end
    end
    table.sort(buckets, function(a, b) return a.magnitude > b.magnitude end)
    local top = artifact.origins[1]
    local what = #buckets == 2 and "starvation or blocked pool threads" or artifact.starvation > 0 and "starvation"
      or "blocked pool threads"
    return {
      summary = ("%d of %d changes of the pool's size were made for %s%s."):format(causal, artifact.n_adjustments, what,
        top and ("; most work was queued by %s (%d of %d)"):format(top.method, top.count, artifact.enqueued) or ""),
      salience = causal / artifact.n_adjustments, buckets = buckets,
    }
  end,
  next = { view = "hillClimbing", reason = "See each change of the pool's size and its reason." },
}
