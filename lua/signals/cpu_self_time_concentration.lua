-- SPDX-License-Identifier: MIT
-- cpu.self-time.concentration: whether few methods have most of the samples of their own that are not known to wait. A grouping, never a
-- diagnosis: stack samples of the runtime tell where threads stand, those of the kernel what ran.
local event_names = require("collectors.event_names")
local leaders = require("samplers.leaders")
local signal = require("lunette.signal")

local MEASURED <const> = "OsOnCpuSamples"

-- emit_at: share of the first method; top_five: of the first five together. min_samples: below, shares are chance.
return signal {
  id = "cpu.self-time.concentration", handle = "cpu-sample", order = 10, emit_at = 0.15, limits = { top_five = 0.5, min_samples = 20 },
  of = function(artifact, self)
    local total, buckets, five = leaders.busy(artifact.info), {}, 0
    if total < self.limits.min_samples then return nil end
    for i, row in ipairs(leaders.of(artifact, math.max(self.buckets, 5))) do
      if i <= 5 then five = five + leaders.busy(row) end
      if i <= self.buckets then buckets[i] = { key = event_names.spoken(row.method), magnitude = leaders.busy(row), unit = "samples" } end
    end
    local first = #buckets > 0 and buckets[1].magnitude / total or 0
    if first < self.emit_at and five / total < self.limits.top_five then return nil end
    local of_what = artifact.evidence.kind == MEASURED and "on-CPU samples" or "stack samples beside known waits"
    return {
      salience = first, buckets = buckets,
      summary = first >= self.emit_at
        and ("%.0f %% of the %d %s have %s as their leaf."):format(100 * first, total, of_what, buckets[1].key)
        or ("%.0f %% of the %d %s have one of %d methods as their leaf."):format(100 * five / total, total, of_what, math.min(5, #buckets)),
    }
  end,
  next = { view = "top-methods", reason = "See the methods with their own and inclusive samples." },
}
