-- SPDX-License-Identifier: MIT
-- What to call after a guard window.
local hints = require("lunette.hints")

local M = {}

--- Hints for a window, best first.
---@param artifact CrashGuardArtifact
---@param handle_id string?
---@param process_id integer?   nil for a recording: its process is gone
---@return table[]
function M.of(artifact, handle_id, process_id)
  local list = {}
  if artifact.unhandled then
    list[1] = hints.new("collect_process_dump", "An unhandled exception was seen: a small dump of the process, while it is still there, or "
      .. "of its successor at the next crash, shows the state of its threads. It asks for its own approval.",
      { dumpType = "Mini", processId = process_id }, "high")
  end
  if artifact.final and artifact.final.frames then
    list[#list + 1] = hints.new("query_snapshot", "See where the final exception was thrown.", { handle = handle_id, view = "stack" })
  end
  list[#list + 1] = hints.new("query_snapshot", "See the final exception and the counts of all types.",
    { handle = handle_id, view = "summary" }, "low")
  return list
end

return M
