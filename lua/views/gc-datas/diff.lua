-- SPDX-License-Identifier: MIT
-- gc-datas/diff: how Server GC adapted in several windows, side by side.
local journey = require("lunette.journey")
local view = require("lunette.view")

local function mean(range) return range.n > 0 and range.sum / range.n or nil end

local function comparable(artifact)
  local h = artifact.history
  local s, keys = h.stats, {}
  for _, row in ipairs(h.tuning) do
    local key = ("heaps:%d"):format(row.new_heaps)
    keys[key] = (keys[key] or 0) + 1
  end
  return {
    keys = keys,
    metrics = {
      { name = "throughputCostPercentMean", unit = "%", value = mean(s.cost), worse = "up" },
      { name = "throughputCostPercentMax", unit = "%", value = s.cost.max, worse = "up" },
      { name = "heapCountChanges", value = h:seen() > 0 and s.changes or nil },
      { name = "minHeapCount", value = s.heaps.min }, { name = "maxHeapCount", value = s.heaps.max },
      { name = "meanGen0BudgetBytes", unit = "B", value = mean(s.budget) },
      { name = "meanSohStableSizeBytes", unit = "B", value = mean(s.stable), worse = "up" },
      { name = "windowSeconds", unit = "s", value = artifact.duration_ms / 1000 },
    },
  }
end

return view {
  kind = "gc-datas", name = "diff",
  project = function(_, opts, entry) return journey.view(entry, opts, comparable) end,
}
