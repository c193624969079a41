-- SPDX-License-Identifier: MIT
-- gc-events/diff: collections and suspensions of several windows side by side. Pauses go by the names of measurement v2 only; what is not
-- known of a window is absent, not 0.
local journey = require("lunette.journey")
local snapshot = require("collectors.gc.snapshot")
local view = require("lunette.view")

local function comparable(artifact)
  local c, s, seconds = artifact.collections, artifact.suspensions, artifact.duration_ms / 1000
  local known, last = s.status ~= "unavailable", artifact.heap.last
  local function rate(n) return seconds > 0 and n / seconds or nil end
  local keys = {}
  for generation = 0, 2 do keys["gen" .. generation] = c.generations[generation] or 0 end
  for reason, n in pairs(c.reasons) do keys["reason:" .. reason] = n end
  return {
    keys = keys,
    metrics = {
      { name = "fullySuspendedPercent.v2", unit = "%", value = snapshot.suspended_percent(artifact), worse = "up" },
      { name = "fullySuspendedTimeMs.v2", unit = "ms", value = known and s.pause.sum_ns / 1e6 or nil },
      { name = "maxFullySuspendedTimeMs.v2", unit = "ms", value = known and s.pause.max_ns / 1e6 or nil, worse = "up" },
      { name = "collectionsPerSecond", unit = "1/s", value = rate(c.total), worse = "up" },
      { name = "gen2PerSecond", unit = "1/s", value = rate(c.generations[2] or 0), worse = "up" },
      { name = "collectionElapsedMs", unit = "ms", value = c.elapsed.sum_ns / 1e6 },
      { name = "windowSeconds", unit = "s", value = seconds },
      { name = "lastHeapBytes", unit = "B", value = last and snapshot.heap_bytes(last), worse = "up" },
      { name = "lastLohBytes", unit = "B", value = last and last.loh },
    },
  }
end

return view {
  kind = "gc-events", name = "diff",
  project = function(_, opts, entry) return journey.view(entry, opts, comparable) end,
}
