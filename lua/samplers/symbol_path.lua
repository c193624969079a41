-- SPDX-License-Identifier: MIT
-- Whether a caller may name the servers of a symbol path. Nothing is fetched from a host that the operator did not list, unless the caller
-- holds the literal scope; folders are always allowed.
local config = require("lunette.config")
local errors = require("lunette.errors")
local log = require("lunette.log")
local scopes = require("lunette.scopes")

local M = {}

M.SCOPE = "symbols-remote"
M.LIST = "Diagnostics:SymbolServerAllowlist"
local CURE <const> = "Leave it out, use a folder, let the operator add the host to %s, or use a token with the scope %s."

local warned = false

--- The remote hosts that a part of a path names, in lower case. A URL without a host that can be read has the host "".
---@param part string
---@return string[]
function M.hosts(part)
  local list = {}
  for piece in part:gmatch("[^*]+") do
    local rest = piece:match("^%s*[hH][tT][tT][pP][sS]?:[/\\]*(.*)$")
    if rest then
      local authority = rest:match("^[^/\\?#]*")
      local host = authority:gsub("^.*@", ""):gsub(":%d*$", ""):lower()
      list[#list + 1] = host:match("^[%w%.%-_%[%]:]+$") or ""
    end
  end
  return list
end

local function allowed()
  local set = {}
  for _, host in ipairs(config.get(M.LIST) or {}) do set[tostring(host):lower()] = true end
  return set
end

--- The first part that names a host which is not allowed, and whether any host is named at all.
---@param path string
---@param set table<string, true>
---@return string? part, boolean remote
function M.denied(path, set)
  local remote = false
  for part in path:gmatch("[^;]+") do
    for _, host in ipairs(M.hosts(part)) do
      remote = true
      if not set[host] then return part, true end
    end
  end
  return nil, remote
end

--- Why the symbol path of a call cannot be used, as an error; nil when it can.
---@param ctx table
---@param args { symbolPath: string? }
function M.refused(ctx, args)
  if not args.symbolPath or scopes.has(ctx.principal, M.SCOPE) then return nil end
  local part, remote = M.denied(args.symbolPath, allowed())
  if part then
    return errors.new("SymbolServerNotAllowed", ("symbolPath names a symbol server that is not allowed: %s. " .. CURE):format(part, M.LIST,
      M.SCOPE), { detail = part, hints = {} })
  end
  if remote and not warned then
    warned = true
    log.warning("symbols", "a symbol server was allowed by the list of hosts alone; scopes tell callers apart", { setting = M.LIST })
  end
  return nil
end

return M
