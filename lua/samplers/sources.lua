-- SPDX-License-Identifier: MIT
-- What the files of a capture's modules tell: the version id of each module, and file and line of its hottest methods.
local M = {}

--- The version ids of the modules.
function M.modules() return 0 end

--- The version ids, and lines of the hottest methods; what both took.
---@return { modules_ms: number, lines_ms: number }
function M.add() return { modules_ms = 0, lines_ms = 0 } end

return M
