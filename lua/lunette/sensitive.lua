-- SPDX-License-Identifier: MIT
-- sensitive: values of a target's memory (strings, fields, variables). They are shown to whoever asks for them and has the literal scope,
-- or where the operator's legacy switch is on; secrets in them are taken out even then. Everybody else sees a placeholder.
local config = require("lunette.config")
local log = require("lunette.log")
local redaction = require("lunette.redaction")
local scopes = require("lunette.scopes")

local M = {}

M.SCOPE = "sensitive-heap-read"
M.LEGACY = "Diagnostics:AllowSensitiveHeapValues"
M.PLACEHOLDER = redaction.METADATA_ONLY

local warned = false

--- Whether this call may see values: both the flag of the call and a right.
---@param ctx table
---@param asked boolean?   includeSensitiveValues
function M.unlocked(ctx, asked)
  if not asked then return false end
  if scopes.has(ctx.principal, M.SCOPE) then return true end
  if config.get(M.LEGACY) ~= true then return false end
  if not warned then
    warned = true
    log.warning("sensitive", "raw values were shown because of a deprecated setting; give the token the scope instead",
      { setting = M.LEGACY, scope = M.SCOPE })
  end
  return true
end

--- A value as this call may see it.
---@param value string?
---@param open boolean   of unlocked()
function M.shown(value, open)
  if type(value) ~= "string" then return value end
  return open and redaction.redact(value) or M.PLACEHOLDER
end

return M
