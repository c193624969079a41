-- SPDX-License-Identifier: MIT
-- settings: what a live process's garbage collector and thread pool were set to, by the runtime's own library over the stopped process.
local errors = require("lunette.errors")
local worker = require("lunette.worker")

local M = {}

M.TIMEOUT_MS = 20000

---@class RuntimeSettings
---@field isServerGc boolean?
---@field heapCount integer?
---@field threadPool { minWorkerThreads: integer, maxWorkerThreads: integer, minIocpThreads: integer, maxIocpThreads: integer }?
---@field stopNs integer
---@field notes string[]

--- Reads them. Waits.
---@param ctx table
---@param target TargetProcess
---@return RuntimeSettings?, table? err
function M.read(ctx, target)
  if target.endpoint and target.endpoint.runtime == "NativeAot" then
    return nil, errors.not_supported("NativeAOT has no library that tells them", {})
  end
  local sent, options = worker.target { process = target }
  options.timeout_ms, options.message = M.TIMEOUT_MS, "Reading the settings of the runtime"
  local seen, err = worker.json(ctx, "settings", sent, options)
  if not seen then return nil, err end
  seen.notes = {}
  if seen.isServerGc == nil then seen.notes[1] = "gc: the runtime's library does not tell." end
  if not seen.threadPool then seen.notes[#seen.notes + 1] = "threadPool: the pool was not used yet; only what is configured is told." end
  return seen
end

return M
