-- SPDX-License-Identifier: MIT
-- Why the kernel does not let itself be watched, as an error of the contract: what is missing, its cure, and whom to ask.
local errors = require("lunette.errors")
local hints = require("lunette.hints")

local M = {}

local TOLD <const> = { NotSupported = true, PermissionDenied = true }

--- The error of a capture, with the way on. Errors of other kinds stay as they are.
---@param err table
---@param pid integer
---@param kind string   of collect_sample
function M.of(err, pid, kind)
  if not TOLD[err.kind] then return err end
  local cure = err.hint and err.hint ~= "" and ("; " .. err.hint) or ""
  return errors.new(err.kind, ("collect_sample(kind=%q) is not possible here: %s%s"):format(kind, tostring(err.message), cure), {
    process_id = pid, detail = err.detail ~= "" and err.detail or nil,
    hints = {
      hints.new("inspect_process", "See what is missing, and its cure.", { view = "capabilities", processId = pid }, "high"),
      hints.new("inspect_process", "The same for this host.", { view = "preflight", processId = pid }),
    },
  })
end

return M
