-- SPDX-License-Identifier: MIT
-- allocations.by-type and allocations.by-site: whether one type, or one call site, made most of the allocated bytes. A grouping, never a
-- diagnosis; silent when nothing stands out or too little was sampled to tell.
local signal = require("lunette.signal")

local UNKNOWN <const> = "<unknown>"

local MAX_SPOKEN <const> = 120 -- bytes of a name from the target within a sentence

local function spoken(name)
  if #name <= MAX_SPOKEN then return name end
  return name:sub(1, utf8.offset(name, 0, MAX_SPOKEN - 2) - 1) .. "..." -- a cut never splits a character
end

local function grouping(noun, rows_of)
  return function(artifact, self)
    local buckets, total = {}, artifact.total
    for _, row in ipairs(rows_of(artifact)) do
      local key = row.name or row.method
      if #buckets == self.buckets then break end
      if key and key ~= UNKNOWN then
        buckets[#buckets + 1] = { key = spoken(key), magnitude = row.estimate.bytes, unit = "bytes" }
      end
    end
    local share = #buckets > 0 and total.bytes > 0 and buckets[1].magnitude / total.bytes or 0
    if share < self.emit_at or total.samples < self.limits.min_samples then return nil end
    return {
      salience = share, buckets = buckets,
      summary = ("The %s %s made about %.0f %% of the allocated bytes."):format(noun, buckets[1].key, math.min(1, share) * 100),
    }
  end
end

-- emit_at: share of the leading one. min_samples: below, the leading share is off by a factor of its own size.
return {
  signal {
    id = "allocations.by-type", handle = "allocations-sampled-snapshot", order = 10,
    emit_at = 0.3, limits = { min_samples = 20 },
    of = grouping("type", function(artifact) return artifact.types end),
    next = { view = "summary", reason = "See all types with their bounds." },
  },
  signal {
    id = "allocations.by-site", handle = "allocations-sampled-snapshot", order = 20,
    emit_at = 0.3, limits = { min_samples = 20 },
    of = grouping("call site", function(artifact) return artifact.sites end),
    next = { view = "bySite", reason = "See all call sites with their stacks." },
  },
}
