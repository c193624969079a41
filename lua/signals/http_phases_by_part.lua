-- SPDX-License-Identifier: MIT
-- http-phases.by-part: whether one phase, or one wait between phases, stands for most of the time of requests. A grouping, never a
-- diagnosis.
local signal = require("lunette.signal")

return signal {
  id = "http-phases.by-part", handle = "http-phases-snapshot", order = 10,
  emit_at = 0.5, -- share of the leading part
  buckets = 5,
  limits = {
    min_requests = 5,     -- fewer are no crowd that anything could stand out of
    min_total_ns = 50e6,  -- less time than this in all is no matter, wherever it goes
  },
  of = function(artifact, self)
    local top, total = artifact.parts[1], artifact.total.total
    if not top or top.kind == "setup" or artifact.ended < self.limits.min_requests or total < self.limits.min_total_ns then return nil end
    if top.share < self.emit_at then return nil end
    local buckets = {}
    for _, part in ipairs(artifact.parts) do
      if part.kind ~= "setup" and #buckets < self.buckets then
        buckets[#buckets + 1] = { key = part.name, magnitude = part.total / 1e6, unit = "ms" }
      end
    end
    return {
      summary = ("%.0f %% of the %.1f ms that %d outgoing requests took went to %s."):format(100 * top.share, total / 1e6, artifact.ended,
        top.name),
      salience = math.min(1, top.share), buckets = buckets,
    }
  end,
  next = { view = "byPhase", reason = "See phases and waits." },
}
