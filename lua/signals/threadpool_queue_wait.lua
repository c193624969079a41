-- SPDX-License-Identifier: MIT
-- threadpool.queue-wait: work items waited long for a pool thread, whatever the runtime calls it. Measured from their entering the queue to
-- their leaving it, for those that were seen doing both.
local hints = require("lunette.hints")

local M = {}

M.ID = "threadpool.queue-wait"
M.EMIT_AT_MS = 250 -- one in twenty waited longer
M.FULL_AT_MS = 1000
M.MIN_ITEMS = 10

--- The signal of a window as a list of none or one.
---@param artifact PoolArtifact
---@param handle_id string?
---@return table[]
function M.of(artifact, handle_id)
  local wait = artifact.queue_wait
  if not wait or wait.n < M.MIN_ITEMS or wait.p95_ms < M.EMIT_AT_MS then return {} end
  local buckets = {}
  for i, row in ipairs { { "p50", wait.p50_ms }, { "p95", wait.p95_ms }, { "max", wait.max_ms } } do
    buckets[i] = { key = row[1], magnitude = math.floor(row[2] + 0.5), unit = "ms", handle = handle_id }
  end
  return { {
    signal = M.ID,
    summary = ("Half of %d work items waited %.0f ms or more for a pool thread, one in twenty %.0f ms or more%s."):format(wait.n,
      wait.p50_ms, wait.p95_ms, wait.not_dequeued > 0 and ("; %d more still wait"):format(wait.not_dequeued) or ""),
    salience = math.min(1, wait.p95_ms / M.FULL_AT_MS), buckets = buckets,
    nextAction = hints.new("query_snapshot", "See who queues work.", { handle = handle_id, view = "workItemOrigins", topN = 20 }),
  } }
end

return M
