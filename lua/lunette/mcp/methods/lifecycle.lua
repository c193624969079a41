-- SPDX-License-Identifier: MIT
--- server/discover, initialize, ping, logging/setLevel.

local protocol = require("lunette.mcp.protocol")

local M = { modern = {}, legacy = {} }

local DISCOVER_TTL_MS <const> = 60000

M.modern["server/discover"] = function(S, call)
  return {
    supportedVersions = protocol.SUPPORTED, capabilities = S:capabilities(call.era), instructions = S.instructions,
    ttlMs = DISCOVER_TTL_MS, cacheScope = "public",
  }
end

--- Checks the params of initialize -> the version to speak; nil, err when they are unusable.
function M.negotiate(params)
  if type(params.protocolVersion) ~= "string" then return nil, protocol.invalid_params("protocolVersion must be a string") end
  if params.capabilities ~= nil and not protocol.is_object(params.capabilities) then
    return nil, protocol.invalid_params("capabilities must be an object")
  end
  if protocol.is_legacy[params.protocolVersion] then return params.protocolVersion end
  return protocol.LEGACY_NEWEST
end

local function legacy_info(S, version)
  local info = S.info
  if version == protocol.LEGACY_NEWEST then return info end
  return { name = info.name, version = info.version, title = version ~= "2025-03-26" and info.title or nil }
end

-- The transport has negotiated and made call.session before.
function M.legacy.initialize(S, call)
  local version = call.session.protocol
  return {
    protocolVersion = version, capabilities = S:capabilities("legacy", version), serverInfo = legacy_info(S, version),
    instructions = S.instructions,
  }
end

function M.legacy.ping() return {} end

M.legacy["logging/setLevel"] = function(_, call)
  local level = call.params.level
  if not protocol.LOG_LEVELS[level] then return nil, protocol.invalid_params("level must be a log level, from debug to emergency") end
  call.session.log_level = level
  return {}
end

return M
