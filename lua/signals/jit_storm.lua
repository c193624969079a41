-- SPDX-License-Identifier: MIT
-- jit.storm: the JIT compiler took a good part of a second, over more methods than being looked at accounts for. Where the compilations
-- concentrate, by namespace; a grouping, never a diagnosis.
local signal = require("lunette.signal")

return signal {
  id = "jit.storm", handle = "jit-snapshot", order = 10,
  emit_at = 0.1, -- share of one second, on all threads together
  buckets = 5,
  limits = { compilations = 500 }, -- below, it may be our own trace: what being looked at makes a process compile (some 40 to 330 methods)
  of = function(artifact, self)
    local peak = artifact.peak
    if artifact.completed < self.limits.compilations or peak.share < self.emit_at then return nil end
    local list, buckets = artifact.namespaces, {}
    for i = 1, math.min(self.buckets, #list) do
      buckets[i] = { key = list[i].name == "" and "(none)" or list[i].name, magnitude = list[i].n, unit = "compilations" }
    end
    return {
      summary = ("%d compilations took %.0f ms; in the busiest second %d of them and %.0f %% of a core. Most are of %s%s."):format(
        artifact.completed, artifact.jit_ms, peak.per_s, 100 * peak.share, buckets[1] and buckets[1].key or "unknown methods",
        artifact.dynamic > 0 and (" (%d dynamic methods in all)"):format(artifact.dynamic) or ""),
      salience = peak.share, buckets = buckets,
    }
  end,
  next = { view = "topMethods", reason = "See which methods took the time.", arguments = { topN = 25 } },
}
