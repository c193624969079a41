-- SPDX-License-Identifier: MIT
-- What to call after a jit window.
local hints = require("lunette.hints")

local M = {}

local WINDOW_S <const> = 10

--- In order of use.
---@param artifact JitArtifact
---@param handle_id string
---@param pid integer?   nil for a recording
function M.of(artifact, handle_id, pid)
  local list = { hints.new("query_snapshot", "See the methods by compile time.", { handle = handle_id, view = "topMethods", topN = 25 }) }
  if artifact.rejit + artifact.osr > 0 then
    list[#list + 1] = hints.new("query_snapshot", "See which methods were compiled again or replaced while they ran.",
      { handle = handle_id, view = "reJIT" })
  end
  if pid then
    list[#list + 1] = hints.new("collect_sample", "See whether the compiled methods or the compiler take the CPU.",
      { kind = "cpu", processId = pid, durationSeconds = WINDOW_S })
  end
  return list
end

return M
