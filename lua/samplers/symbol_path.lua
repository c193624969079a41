-- SPDX-License-Identifier: MIT
-- Where symbols are looked for: the path of the caller, whose servers must be allowed, then that of the operator, which is trusted.
-- Nothing is fetched from a host that the operator did not list, unless the caller holds the literal scope; folders are always allowed.
local config = require("lunette.config")
local errors = require("lunette.errors")
local log = require("lunette.log")
local recordings = require("lunette.recordings")
local scopes = require("lunette.scopes")
local symbols = require("lunette.symbols")

local M = {}

M.SCOPE = "symbols-remote"
M.LIST = "Diagnostics:SymbolServerAllowlist"
M.OPERATOR = { "MCP_SYMBOL_PATH", "_NT_SYMBOL_PATH" } -- the first that is set
local CACHE <const> = "symbols" -- below the artifact root
local CURE <const> = "Leave it out, use a folder, let the operator add the host to %s, or use a token with the scope %s."

local warned = {}

local function warn_once(key, message, fields)
  if warned[key] then return end
  warned[key] = true
  log.warning("symbols", message, fields)
end

-- The part of a path that names the server.
local function part_with(text, server)
  for part in text:gmatch("[^;]+") do
    if part:find(server, 1, true) then return part end
  end
  return server
end

local function cache() return recordings.root() .. "/" .. CACHE end

--- The path that a caller gave; nil when it gave none; nil and an error when it cannot be used.
---@param ctx table
---@param text string?
---@return userdata? path, table? err
function M.of_caller(ctx, text)
  if not text or text == "" then return nil end
  local hosts = {}
  for i, host in ipairs(config.get(M.LIST) or {}) do hosts[i] = tostring(host) end
  local path, err = symbols.path(text, { hosts = hosts, any_host = scopes.has(ctx.principal, M.SCOPE), cache = cache() })
  if path then
    if path:by_hosts() then
      warn_once(M.LIST, "a symbol server was allowed by the list of hosts alone; the scope tells callers apart", { setting = M.LIST })
    end
    return path
  end
  if err.kind ~= "PermissionDenied" then return nil, errors.invalid("symbolPath", ("symbolPath: %s."):format(err.message)) end
  local part = part_with(text, err.detail)
  return nil, errors.new("SymbolServerNotAllowed", ("symbolPath names a symbol server that is not allowed: %s. " .. CURE):format(part,
    M.LIST, M.SCOPE), { detail = part, hints = {} })
end

--- The path of the operator, or nil. One that cannot be read is told once in the log.
---@return userdata? path
function M.of_operator()
  for _, key in ipairs(M.OPERATOR) do
    local text = config.get(key)
    if text and text ~= "" then
      local path, err = symbols.path(text, { trusted = true, cache = cache() })
      if not path then warn_once(key, "the symbol path cannot be used", { setting = key, error = tostring(err) }) end
      return path
    end
  end
  return nil
end

--- Why the symbol path of a call cannot be used, as an error; nil when it can.
---@param ctx table
---@param args { symbolPath: string? }
function M.refused(ctx, args)
  local _, err = M.of_caller(ctx, args.symbolPath)
  return err
end

return M
