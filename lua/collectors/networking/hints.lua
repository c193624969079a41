-- SPDX-License-Identifier: MIT
-- What to call after a window of networking.
local hints = require("lunette.hints")

local M = {}

M.SLOW_QUEUE_MS = 50 -- a p95 from which waiting for a connection is worth a look

--- Hints for a window, best first.
---@param artifact table
---@param handle_id string?
---@param process_id integer?   nil for a recording
---@return table[]
function M.of(artifact, handle_id, process_id)
  local list = {}
  local function view(name, why, priority)
    list[#list + 1] = hints.new("query_snapshot", why, { handle = handle_id, view = name }, priority)
  end
  local queue = artifact.queue.time
  if queue and queue.p95 >= M.SLOW_QUEUE_MS then view("queue", "Requests wait for a connection of the pool.", "high") end
  if artifact.http.failed > 0 then
    list[#list + 1] = hints.new("collect_events", "Requests fail: see in which phase, and why.",
      { kind = "http-phases", processId = process_id }, "high")
  end
  view("byOperation", "See the requests by scheme, host and port.")
  if artifact.tls.failed > 0 then view("tls", "TLS handshakes fail.") end
  if artifact.dns.failed > 0 then view("dns", "Lookups of names fail.") end
  if artifact.http.started == 0 then
    list[#list + 1] = hints.new("collect_events", "No request went out: look at what waits instead.",
      { kind = "wait-handles", processId = process_id })
  elseif artifact.http.failed == 0 then
    list[#list + 1] = hints.new("collect_events", "See where the time of the requests goes.",
      { kind = "http-phases", processId = process_id })
  end
  return list
end

return M
