-- SPDX-License-Identifier: MIT
-- gc.gen2-share: which share of the collections were of generation 2, against a normal that generation 0 dominates. A grouping, never a
-- diagnosis. Silent after loss: the ratio would be wrong.
local signal = require("lunette.signal")

local LOSS <const> = { ["transport-loss"] = true, ["collector-loss"] = true, ["pairing-loss"] = true }

return signal {
  id = "gc.gen2-share", handle = "gc-events", order = 20, emit_at = 0.2,
  limits = { min_collections = 3 }, -- a share of one or two says nothing
  of = function(artifact, self)
    local c = artifact.collections
    for _, word in ipairs(c.quality) do
      if LOSS[word] then return nil end
    end
    local forced = artifact.induced and artifact.induced.collections or 0 -- by us: no finding
    local gen2, total = (c.generations[2] or 0) - forced, c.total - forced
    if total < self.limits.min_collections or gen2 / total < self.emit_at then return nil end
    return {
      summary = ("%d of %d collections were of generation 2."):format(gen2, total), salience = gen2 / total,
      buckets = { { key = "gen2", magnitude = gen2, unit = "collections" } },
    }
  end,
  next = { view = "byGeneration", reason = "See the collections by generation." },
}
