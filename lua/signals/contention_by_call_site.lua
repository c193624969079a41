-- SPDX-License-Identifier: MIT
-- contention.by-call-site: whether one call site stands for most of the time that threads waited for locks. A grouping, never a diagnosis.
local signal = require("lunette.signal")

return signal {
  id = "contention.by-call-site", handle = "contention-snapshot", order = 10,
  emit_at = 0.5, -- share of the leading site's time
  buckets = 5,
  limits = {
    min_events = 5,      -- fewer are no crowd that anything could stand out of
    min_total_ns = 10e6, -- less waiting than this in all is no matter, wherever it is
    unknown = "(unknown)",
  },
  of = function(artifact, self)
    local top, limits = artifact.sites[1], self.limits
    if artifact.total < limits.min_events or artifact.total_ns < limits.min_total_ns then return nil end
    if not top or top.site.method == limits.unknown then return nil end
    local share = top.total_ns / artifact.total_ns
    if share < self.emit_at then return nil end
    local buckets = {}
    for i = 1, math.min(self.buckets, #artifact.sites) do
      local s = artifact.sites[i]
      buckets[i] = { key = s.site.method, magnitude = s.total_ns / 1e6, unit = "ms" }
    end
    return {
      summary = ("%.0f %% of %.1f ms of waiting for locks is at one call site of %d: %s."):format(100 * share, artifact.total_ns / 1e6,
        #artifact.sites, top.site.method),
      salience = share, buckets = buckets,
    }
  end,
  next = { view = "byBlame", reason = "See which owners make others wait." },
}
