-- SPDX-License-Identifier: MIT
-- What to call after a window of a web server.
local hints = require("lunette.hints")

local M = {}

local WINDOW_S <const> = 10
local TOP <const> = 25
M.SLOW_MS = 500 -- of the 95th percentile

--- Hints for a window, best first.
---@param artifact KestrelArtifact
---@param handle_id string?
---@param process_id integer?   nil for a recording: its process is gone
---@return table[]
function M.of(artifact, handle_id, process_id)
  local list = {}
  local function add(...) list[#list + 1] = hints.new(...) end
  local function view(reason, name, priority) add("query_snapshot", reason, { handle = handle_id, view = name }, priority) end
  if artifact.peaks.connection > 0 or artifact.peaks.request > 0 then
    view("Connections or requests had to queue: see when.", "queues", "high")
    if process_id then
      add("collect_events", "What queues waits for a pool thread: see whether the pool starves.",
        { kind = "threadpool", durationSeconds = WINDOW_S, processId = process_id })
    end
  end
  if artifact.tls.failed > 0 then view("TLS handshakes failed: see how many, and with which protocols others succeed.", "tls") end
  if process_id and (artifact.requests.time.p95 or 0) > M.SLOW_MS then
    add("collect_events", "Requests are slow: see which of them hang right now.",
      { kind = "requests", durationSeconds = WINDOW_S, processId = process_id })
  end
  add("query_snapshot", "See requests by method, path and version.", { handle = handle_id, view = "byOperation", topN = TOP })
  if artifact.options then view("See the server's limits, endpoints and protocols.", "config", "low") end
  return list
end

return M
