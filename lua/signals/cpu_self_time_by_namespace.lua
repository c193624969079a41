-- SPDX-License-Identifier: MIT
-- cpu.self-time.by-namespace: whether one namespace has most of the samples of its own that are not known to wait, over the whole tree.
local event_names = require("collectors.event_names")
local leaders = require("samplers.leaders")
local signal = require("lunette.signal")

local ALL <const> = 100000 -- namespaces: all of them, so that no cap distorts the sums

local function by_busy(a, b)
  if leaders.busy(a) ~= leaders.busy(b) then return leaders.busy(a) > leaders.busy(b) end
  return a.key < b.key
end

-- emit_at: share of the first namespace. min_samples: below, shares are chance.
return signal {
  id = "cpu.self-time.by-namespace", handle = "cpu-sample", order = 20, emit_at = 0.3, limits = { min_samples = 20 }, resource_only = true,
  of = function(artifact, self)
    local total, rows, buckets = leaders.busy(artifact.info), {}, {}
    if total < self.limits.min_samples then return nil end
    for _, row in ipairs(artifact.profile:by_namespace { top = ALL }) do
      if row.key ~= "" and leaders.busy(row) > 0 then rows[#rows + 1] = row end
    end
    table.sort(rows, by_busy)
    for i = 1, math.min(self.buckets, #rows) do
      buckets[i] = { key = event_names.spoken(rows[i].key), magnitude = leaders.busy(rows[i]), unit = "samples" }
    end
    local share = #buckets > 0 and buckets[1].magnitude / total or 0
    if share < self.emit_at then return nil end
    return {
      salience = share, buckets = buckets,
      summary = ("%.0f %% of the %d samples beside known waits have a leaf in %s."):format(100 * share, total, buckets[1].key),
    }
  end,
  next = { view = "by-namespace", reason = "See all namespaces." },
}
