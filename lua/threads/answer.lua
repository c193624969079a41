-- SPDX-License-Identifier: MIT
-- What the answers of all thread views share.
local errors = require("lunette.errors")
local numbers = require("lunette.numbers")

local M = {}

--- The members beside the payload.
function M.fields(artifact) return { source = artifact.source, walkDuration = numbers.timespan(artifact.walk_ms) } end

--- The thread of an id, managed or, in a native snapshot, of the kernel.
---@return table?, LunetteError?
function M.thread(artifact, id, handle)
  local found = artifact.by_id[id]
  if found then return found end
  return nil, errors.new("ThreadNotFound", ("There is no thread %d in this snapshot."):format(id), {
    detail = tostring(id), hints = {
      require("lunette.hints").new("query_snapshot", "See which threads there are.", { handle = handle, view = "threads-summary" }, "high"),
    },
  })
end

return M
