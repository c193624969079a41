-- SPDX-License-Identifier: MIT
-- What to call after a window of outgoing requests.
local hints = require("lunette.hints")

local M = {}

local MUCH <const> = 0.3 -- of the time of all requests

--- Hints for a window, best first.
---@param artifact table
---@param handle_id string?
---@param process_id integer?   nil for a recording
---@return table[]
function M.of(artifact, handle_id, process_id)
  local list = {}
  local function view(name, why, priority)
    list[#list + 1] = hints.new("query_snapshot", why, { handle = handle_id, view = name, topN = 20 }, priority)
  end
  if artifact.failed > 0 then view("failures", "See which requests failed, where and why.", "high") end
  local top = artifact.parts[1]
  if top and top.name == "queue" and top.share >= MUCH then
    list[#list + 1] = hints.new("collect_events", "Requests wait for a connection: see the pool's times and counters.",
      { kind = "networking", processId = process_id }, "high")
  end
  if artifact.ended > 0 then view("slowest", "See the slowest requests with all their phases.") end
  if artifact.redirected > 0 then view("redirects", "See what redirects cost.") end
  if artifact.n_in_flight > 0 then view("inFlight", "See the requests that had not ended.") end
  if #artifact.hosts > 1 then view("byHost", "Compare the hosts.") end
  if artifact.started == 0 then
    list[#list + 1] = hints.new("collect_events", "No request began: see whether there is any traffic.",
      { kind = "networking", processId = process_id })
  end
  return list
end

return M
