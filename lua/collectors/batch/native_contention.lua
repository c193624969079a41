-- SPDX-License-Identifier: MIT
-- What a batch tells of native synchronisation: the waits of its off_cpu entry, with the calls of its native-lock-contention entry beside.
local contention = require("samplers.native_contention")

local M = {}

-- The evidence of an entry, or nil and why there is none.
local function part(result, member)
  if not result then return nil, "was not asked for" end
  if result.error then return nil, ("failed (%s)"):format(result.error.kind) end
  local artifact = result.extras.handle and result.extras.handle.artifact
  return artifact and artifact[member] or nil, "gave no evidence"
end

--- NativeContentionEvidence; nil when neither entry was asked for, or both failed.
---@param off_cpu FanoutResult?
---@param locks FanoutResult?
function M.of(off_cpu, locks)
  local waits, no_waits = part(off_cpu, "evidence")
  local calls, no_calls = part(locks, "contention")
  return contention.merge(waits, no_waits, calls, no_calls)
end

return M
