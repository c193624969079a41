-- SPDX-License-Identifier: MIT
local M = {}
function M.start() end
return M
