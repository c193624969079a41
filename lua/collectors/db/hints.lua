-- SPDX-License-Identifier: MIT
-- What to call after a window of database commands.
local hints = require("lunette.hints")

local M = {}

local WINDOW_S <const> = 10
local TOP <const> = 25
M.SLOW_MS = 50 -- of the 95th percentile of a statement

--- Hints for a window, best first.
---@param artifact DbArtifact
---@param handle_id string?
---@param process_id integer?   nil for a recording: its process is gone
---@return table[]
function M.of(artifact, handle_id, process_id)
  local list = {}
  local function add(...) list[#list + 1] = hints.new(...) end
  local slowest = 0
  for _, c in ipairs(artifact.commands) do slowest = math.max(slowest, c.p95_ms) end
  add("query_snapshot", #artifact.incidents > 0 and "The same command was repeated under one parent: see which, and under which."
    or "See whether a command was repeated under one parent.", { handle = handle_id, view = "n+1", topN = TOP },
    #artifact.incidents > 0 and "high" or "normal")
  add("query_snapshot",
    slowest > M.SLOW_MS and "Statements are slow: see which take the time." or "See the statements by the time they took.",
    { handle = handle_id, view = "byCommand", topN = TOP })
  for _, pool in ipairs(artifact.pools) do
    if pool.exhausted > 0 then
      add("query_snapshot", "The connection pool ran out: see its numbers.", { handle = handle_id, view = "connectionPool" }, "high")
      break
    end
  end
  if process_id then
    add("collect_sample", (#artifact.incidents > 0 or slowest > M.SLOW_MS) and "See which code sends these commands."
      or "The database is not slow: see where the time goes.", { kind = "cpu", durationSeconds = WINDOW_S, processId = process_id })
  end
  return list
end

return M
