-- SPDX-License-Identifier: MIT
-- waits.by-call-site: whether one call site stands for most of the time that threads waited, for handles and for locks, those aside that
-- wait for want of work. A grouping, never a diagnosis.
local signal = require("lunette.signal")

local function weight(g) return g.total_ns + g.still_ns end

return signal {
  id = "waits.by-call-site", handle = "wait-handles-snapshot", order = 10,
  emit_at = 0.5, -- share of the leading site's time
  buckets = 5,
  limits = {
    min_waits = 5,       -- fewer are no crowd that anything could stand out of
    min_total_ns = 10e6, -- less waiting than this in all is no matter, wherever it is
    unknown = "(unknown)",
  },
  of = function(artifact, self)
    local top, limits, all, n, buckets = artifact.where[1], self.limits, 0, 0, {}
    for _, g in ipairs(artifact.where) do
      if not g.idle then
        all, n = all + weight(g), n + g.n + g.still
        if #buckets < self.buckets then
          buckets[#buckets + 1] = { key = g.site.method, magnitude = weight(g) / 1e6, unit = "ms" }
        end
      end
    end
    if not top or top.idle or top.site.method == limits.unknown or n < limits.min_waits or all < limits.min_total_ns then return nil end
    local share = weight(top) / all
    if share < self.emit_at then return nil end
    return {
      summary = ("%.0f %% of %.1f ms of waiting is at one call site: %s (%s)."):format(100 * share, all / 1e6, top.site.method, top.reason),
      salience = share, buckets = buckets,
    }
  end,
  next = { view = "whereThreadsWait", reason = "See where threads wait." },
}
