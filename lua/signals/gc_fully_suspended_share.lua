-- SPDX-License-Identifier: MIT
-- gc.fully-suspended-share.v2: which share of the window the program stood still for GC. A grouping, never a diagnosis. Silent without
-- usable suspension evidence.
local signal = require("lunette.signal")

local function longest(rows, max)
  local list = table.move(rows, 1, #rows, 1, {})
  table.sort(list, function(a, b)
    local x, y = a.end_ns - a.start_ns, b.end_ns - b.start_ns
    if x ~= y then return x > y end
    return a.start_ns < b.start_ns
  end)
  return table.move(list, 1, math.min(max, #list), 1, {})
end

return signal {
  id = "gc.fully-suspended-share.v2", handle = "gc-events", order = 10, emit_at = 0.02, buckets = 3,
  of = function(artifact, self)
    local s = artifact.suspensions
    if s.status == "unavailable" or artifact.duration_ms <= 0 then return nil end
    local share = s.pause.sum_ns / 1e6 / artifact.duration_ms
    if share < self.emit_at then return nil end
    local buckets = {}
    for i, row in ipairs(longest(s.longest, self.buckets)) do
      buckets[i] = {
        key = ("suspension at %.3f s"):format(row.start_ns / 1e9), magnitude = (row.end_ns - row.start_ns) / 1e6, unit = "ms",
      }
    end
    return {
      summary = ("%s%.1f %% of the window was fully suspended for GC, in %d suspensions; the longest took %.1f ms."):format(
        s.status == "degraded" and "At least " or "", 100 * share, s.pause.n, s.pause.max_ns / 1e6),
      salience = share, buckets = buckets,
    }
  end,
  next = { view = "longestPauses", reason = "See the longest suspensions." },
}
