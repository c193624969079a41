-- SPDX-License-Identifier: MIT
-- heap.by-type: whether objects of one type, or of a few, make up most of a heap. A grouping, never a diagnosis: beyond the contract.
local signal = require("lunette.signal")

local PLUMBING <const> = { ["System.String"] = true, ["System.Byte[]"] = true, ["System.Char[]"] = true, ["System.Object[]"] = true }

-- emit_at: share of the leading type that is not one of those that fill every heap. min_bytes: a small heap is nobody's trouble.
return signal {
  id = "heap.by-type", handle = "heap-snapshot", order = 10, emit_at = 0.2, limits = { min_bytes = 10000000 },
  of = function(artifact, self)
    local info, buckets = artifact.info, {}
    local broken = artifact.quality and not artifact.quality.gc_stopped -- shares of a part say nothing of the whole
    if broken or info.bytes < self.limits.min_bytes then return nil end
    for _, row in ipairs((artifact.graph:types { by = "bytes", top = 20 })) do
      if #buckets < self.buckets and not PLUMBING[row.name] then
        buckets[#buckets + 1] = { key = row.name, magnitude = row.bytes, unit = "bytes" }
      end
    end
    local share = buckets[1] and buckets[1].magnitude / info.bytes or 0
    if share < self.emit_at then return nil end
    return {
      salience = share, buckets = buckets,
      summary = ("%.0f %% of the heap are objects of one type."):format(share * 100),
    }
  end,
  next = { view = "retained", reason = "See what would go with it." },
}
