-- SPDX-License-Identifier: MIT
-- settings: what a live process's garbage collector and thread pool were set to, by the runtime's own library over the stopped process.
local errors = require("lunette.errors")

local M = {}

---@class RuntimeSettings
---@field isServerGc boolean?
---@field heapCount integer?
---@field threadPool { minWorkerThreads: integer?, maxWorkerThreads: integer?, minIocpThreads: integer?, maxIocpThreads: integer? }?
---@field notes string[]

--- Reads them. Waits.
---@param _target TargetProcess
---@return RuntimeSettings?, table? err
function M.read(_target) return nil, errors.not_supported("the live attach is not built yet", {}) end

return M
