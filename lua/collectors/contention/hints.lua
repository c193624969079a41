-- SPDX-License-Identifier: MIT
-- What to call after a window of lock contention.
local hints = require("lunette.hints")

local M = {}

local TOP <const> = 20
local COUNTERS_S <const> = 5

--- Hints for a window, best first.
---@param artifact ContentionArtifact
---@param handle_id string?
---@param process_id integer?   nil for a recording: its process is gone
---@return table[]
function M.of(artifact, handle_id, process_id)
  if artifact.total == 0 and artifact.still.n == 0 then
    return {
      hints.new("collect_events", "See whether monitor-lock-contention-count rises.",
        { kind = "counters", durationSeconds = COUNTERS_S, providers = { "System.Runtime" }, processId = process_id }),
      hints.new("collect_thread_snapshot", "See what the threads wait for.", { processId = process_id }),
    }
  end
  return {
    hints.new("query_snapshot", "See where threads wait for locks.", { handle = handle_id, view = "byCallSite", topN = TOP }),
    hints.new("query_snapshot", "See which owners make others wait, and where those were.",
      { handle = handle_id, view = "byBlame", topN = TOP }),
    hints.new("query_snapshot", "See which threads hold the locks.", { handle = handle_id, view = "byOwner", topN = TOP }, "low"),
  }
end

return M
