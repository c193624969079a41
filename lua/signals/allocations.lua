-- SPDX-License-Identifier: MIT
-- allocations.by-type and allocations.by-site: whether one type, or one call site, made most of the allocated bytes. A grouping, never a
-- diagnosis; silent when nothing stands out or too little was sampled to tell.
local signal = require("lunette.signal")

local UNKNOWN <const> = "<unknown>"
local RANDOM <const>, TICKS <const> = "allocations-sampled-snapshot", "allocation-sample" -- kinds of handles

local MAX_SPOKEN <const> = 120 -- bytes of a name from the target within a sentence

local function spoken(name)
  if #name <= MAX_SPOKEN then return name end
  return name:sub(1, utf8.offset(name, 0, MAX_SPOKEN - 2) - 1) .. "..." -- a cut never splits a character
end

-- Bytes by name, most first; all bytes; samples.
local types <const> = {
  [RANDOM] = function(artifact)
    local rows = {}
    for i, t in ipairs(artifact.types) do rows[i] = { name = t.name, bytes = t.estimate.bytes } end
    return rows, artifact.total.bytes, artifact.total.samples
  end,
  [TICKS] = function(artifact)
    local rows = {}
    for i, t in ipairs(artifact.types) do rows[i] = { name = t.type, bytes = t.bytes } end
    return rows, artifact.info.bytes, artifact.info.samples
  end,
}
local sites <const> = {
  [RANDOM] = function(artifact)
    local rows = {}
    for i, s in ipairs(artifact.sites) do rows[i] = { name = s.method, bytes = s.estimate.bytes } end
    return rows, artifact.total.bytes, artifact.total.samples
  end,
  [TICKS] = function(artifact)
    local rows = {}
    for i, s in ipairs(artifact.sites) do rows[i] = { name = s.method, bytes = s.exclusive_bytes } end
    return rows, artifact.info.bytes, artifact.info.samples
  end,
}

local function grouping(noun, by_kind)
  return function(artifact, self, kind)
    local buckets = {}
    local rows, total, samples = by_kind[kind](artifact)
    for _, row in ipairs(rows) do
      if #buckets == self.buckets then break end
      if row.name ~= UNKNOWN then buckets[#buckets + 1] = { key = spoken(row.name), magnitude = row.bytes, unit = "bytes" } end
    end
    local share = #buckets > 0 and total > 0 and buckets[1].magnitude / total or 0
    if share < self.emit_at or samples < self.limits.min_samples then return nil end
    return {
      salience = share, buckets = buckets,
      summary = ("The %s %s made about %.0f %% of the allocated bytes."):format(noun, buckets[1].key, math.min(1, share) * 100),
    }
  end
end

-- emit_at: share of the leading one. min_samples: below, the leading share is off by a factor of its own size.
return {
  signal {
    id = "allocations.by-type", handle = { RANDOM, TICKS }, order = 10,
    emit_at = 0.3, limits = { min_samples = 20 },
    of = grouping("type", types),
    next = { view = { [RANDOM] = "summary", [TICKS] = "top-methods" }, reason = "See more of what was allocated." },
  },
  signal {
    id = "allocations.by-site", handle = { RANDOM, TICKS }, order = 20,
    emit_at = 0.3, limits = { min_samples = 20 },
    of = grouping("call site", sites),
    next = { view = { [RANDOM] = "bySite", [TICKS] = "call-tree" }, reason = "See the call sites with their stacks." },
  },
}
