-- SPDX-License-Identifier: MIT
-- What to call after a window of log messages.
local hints = require("lunette.hints")

local M = {}

local WINDOW_S <const> = 10
local TOP <const> = 25

--- Hints for a window, best first.
---@param artifact table
---@param handle_id string?
---@param process_id integer?   nil for a recording: its process is gone
---@return table[]
function M.of(artifact, handle_id, process_id)
  local worst = artifact.levels[3] + artifact.levels[4] + artifact.levels[5]
  local list = {
    hints.new("query_snapshot", worst > 0 and ("See the newest of %d warnings and errors."):format(worst)
      or "See whether a warning or an error is among the messages kept.", { handle = handle_id, view = "errors", topN = TOP }),
  }
  for _, entry in ipairs(artifact.errors) do
    if entry.trace_id then
      list[2] = hints.new("collect_events", "Messages carry trace ids: see the spans around them while they come.",
        { kind = "activities", durationSeconds = WINDOW_S, processId = process_id })
      break
    end
  end
  list[#list + 1] = hints.new("collect_sample", "See what the program runs meanwhile.",
    { kind = "cpu", durationSeconds = WINDOW_S, processId = process_id })
  return list
end

return M
