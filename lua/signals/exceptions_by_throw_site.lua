-- SPDX-License-Identifier: MIT
-- exceptions.by-throw-site: whether one place throws most of the exceptions whose stack has names. A grouping, never a diagnosis.
local signal = require("lunette.signal")

return signal {
  id = "exceptions.by-throw-site", handle = "crash-guard-snapshot", order = 20,
  emit_at = 0.5, -- share of the leading site among throws with a resolved stack
  buckets = 5,
  limits = { min_resolved = 3 }, -- fewer are no crowd that a place could stand out of
  of = function(artifact, self)
    local top, n = artifact.sites[1], artifact.resolved
    if not top or n < self.limits.min_resolved or top.n / n < self.emit_at then return nil end
    local buckets = {}
    for i = 1, math.min(self.buckets, #artifact.sites) do
      local s = artifact.sites[i]
      buckets[i] = { key = s.type .. " @ " .. s.frame, magnitude = s.n, unit = "exceptions" }
    end
    return {
      summary = ("%.0f %% of the %d exceptions with a resolved stack (of %d) come from one place: %s."):format(100 * top.n / n, n,
        artifact.total, buckets[1].key),
      salience = top.n / n, buckets = buckets,
    }
  end,
  next = { view = "exceptions", reason = "See the exceptions with their stacks." },
}
