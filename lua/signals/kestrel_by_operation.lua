-- SPDX-License-Identifier: MIT
-- kestrel.by-operation: one operation stands for most of the time that requests took. A grouping, never a diagnosis.
local signal = require("lunette.signal")

return signal {
  id = "kestrel.by-operation", handle = "kestrel-snapshot", order = 10,
  emit_at = 0.5,                  -- share of the leading operation in the time of all
  limits = { min_requests = 10 }, -- fewer are no crowd that anything could stand out of
  of = function(artifact, self)
    local all = artifact.requests.total_ms
    if artifact.requests.time.n < self.limits.min_requests or all <= 0 or #artifact.operations < 2 then return nil end
    local list = { table.unpack(artifact.operations) }
    table.sort(list, function(a, b)
      if a.total_ms ~= b.total_ms then return a.total_ms > b.total_ms end
      return a.path < b.path
    end)
    local top = list[1]
    local share = math.min(1, top.total_ms / all)
    if share < self.emit_at then return nil end
    local buckets = {}
    for i, op in ipairs(list) do buckets[i] = { key = op.method .. " " .. op.path, magnitude = op.total_ms, unit = "ms" } end
    return {
      summary = ("%s %s took %.0f %% of the time of all %d requests that ended, in %d of them."):format(top.method, top.path,
        100 * share, artifact.requests.time.n, top.n),
      salience = share, buckets = buckets,
    }
  end,
  next = { view = "byOperation", reason = "See the times of each operation.", arguments = { topN = 25 } },
}
