-- SPDX-License-Identifier: MIT
-- threadpool.starvation: the runtime added pool threads because queued work made no progress, or because pool threads blocked on tasks.
-- Only reasons that the runtime gave count; how the pool grew is no evidence. CooperativeBlocking is the reason for threads that are added
-- while others block, and for taking them back.
local adjustments = require("collectors.threadpool.adjustments")
local hints = require("lunette.hints")

local M = {}

M.ID = "threadpool.starvation"

--- The signal of a window as a list of none or one.
---@param artifact PoolArtifact
---@param handle_id string?
---@return table[]
function M.of(artifact, handle_id)
  local causal = artifact.starvation + artifact.blocking
  if causal == 0 then return {} end
  local buckets = {}
  for _, bucket in ipairs { { adjustments.STARVATION, artifact.starvation }, { adjustments.BLOCKING, artifact.blocking } } do
    if bucket[2] > 0 then
      buckets[#buckets + 1] = { key = bucket[1], magnitude = bucket[2], unit = "adjustments", handle = handle_id }
    end
  end
  table.sort(buckets, function(a, b) return a.magnitude > b.magnitude end)
  local top = artifact.origins[1]
  local what = #buckets == 2 and "starvation or blocked pool threads" or artifact.starvation > 0 and "starvation" or "blocked pool threads"
  return { {
    signal = M.ID,
    summary = ("%d of %d changes of the pool's size were made for %s%s."):format(causal, artifact.n_adjustments, what,
      top and ("; most work was queued by %s (%d of %d)"):format(top.method, top.count, artifact.enqueued) or ""),
    salience = causal / artifact.n_adjustments, buckets = buckets,
    nextAction = hints.new("query_snapshot", "See each change of the pool's size and its reason.",
      { handle = handle_id, view = "hillClimbing" }),
  } }
end

return M
