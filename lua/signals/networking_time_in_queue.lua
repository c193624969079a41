-- SPDX-License-Identifier: MIT
-- networking.time-in-queue: whether waiting for a connection stands for much of what requests take. A grouping, never a diagnosis.
local hints = require("lunette.hints")

local M = {}

M.ID = "networking.time-in-queue"
M.MIN_REQUESTS = 5   -- that waited: fewer are no crowd
M.MIN_P95_MS = 10    -- less is no matter, whatever its share
M.EMIT_AT = 0.5      -- of the time of all requests

--- The signal of a window as a list of none or one.
---@param artifact table
---@param handle_id string?
---@return table[]
function M.of(artifact, handle_id)
  local queue, http = artifact.queue.time, artifact.http.time
  if not queue or not http or queue.n < M.MIN_REQUESTS or queue.p95 < M.MIN_P95_MS then return {} end
  local waited, all = queue.mean * queue.n, http.mean * http.n / 1e6
  local share = all > 0 and math.min(1, waited / all) or 0
  if share < M.EMIT_AT then return {} end
  return { {
    signal = M.ID,
    summary = ("%.0f %% of the time of %d requests is waiting for a connection: %d of them waited, p95 %.1f ms."):format(100 * share,
      http.n, queue.n, queue.p95),
    salience = share,
    buckets = {
      { key = "waiting for a connection", magnitude = waited, unit = "ms", handle = handle_id },
      { key = "all else", magnitude = math.max(0, all - waited), unit = "ms", handle = handle_id },
    },
    nextAction = hints.new("query_snapshot", "See the times in the queue.", { handle = handle_id, view = "queue" }),
  } }
end

return M
