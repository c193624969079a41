-- SPDX-License-Identifier: MIT
-- What the files of a capture's modules tell: the version id of each module, and file and line of its hottest methods.
local M = {}

return M
