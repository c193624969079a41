-- SPDX-License-Identifier: MIT
-- hints_kit: the hints for an artifact that a spec made up, as the answer of its capture has them.
local index = require("lunette.rules.index")
local signal = require("lunette.signal")

local M = {}

--- Hints for a capture, best first.
---@param kind string         of the handle
---@param artifact table
---@param handle_id string?
---@param process_id integer?
function M.of(kind, artifact, handle_id, process_id)
  return index.hints(kind, {
    artifact = artifact, signals = signal.of_capture(kind, artifact, handle_id), handle_id = handle_id, process_id = process_id,
  })
end

--- The same for one kind of handle.
function M.for_kind(kind)
  return { of = function(artifact, handle_id, process_id) return M.of(kind, artifact, handle_id, process_id) end }
end

return M
