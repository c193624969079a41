-- SPDX-License-Identifier: MIT
-- store: what a caller names below the artifact root. A path is checked here at each call, and walked without links where it is opened.
local artifacts = require("lunette.artifacts")
local errors = require("lunette.errors")
local fs = require("lunette.fs")
local hints = require("lunette.hints")
local recordings = require("lunette.recordings")

local M = {}

M.root = recordings.root

-- The error of the native part, with the parameter as detail.
local function about(err, parameter)
  if err.kind ~= "InvalidArtifactPath" and err.kind ~= "ArtifactNotFound" then return err end
  return errors.new(err.kind, ("%s: %s."):format(parameter, tostring(err.message)), { detail = parameter,
    hints = parameter ~= "outputDirectory" and { hints.new("get_bytes", "See which files there are.", { kind = "list" }) } or nil })
end

--- The name below the root of a file that is there.
---@param path string
---@param parameter string   of the call, for the error
---@param absolute? boolean  an absolute path below the root will do
---@return string? name, table? err   InvalidArtifactPath, ArtifactNotFound
function M.existing(path, parameter, absolute)
  local name, err = artifacts.name(M.root(), path, absolute)
  if name then return name end
  return nil, about(err, parameter)
end

--- The real path of a file that this request may read: any for a person on the command line, one below the root for a client.
---@param ctx { transport: string }
---@param path string
---@param parameter string   of the call, for the error
---@return string? path, table? err   InvalidArgument; InvalidArtifactPath, ArtifactNotFound
function M.readable(ctx, path, parameter)
  local name, err
  if ctx.transport ~= "cli" then
    name, err = M.existing(path, parameter, true)
    if not name then return nil, err end
    path = M.root() .. "/" .. name
  end
  local real = fs.realpath(path)
  if real then return real end
  return nil, errors.invalid(parameter, ("There is no file %s."):format(path))
end

--- The name of a folder below the root, whether it is there or not ("" for none given).
---@param path string?
---@param parameter string
---@return string? name, table? err   InvalidArtifactPath
function M.folder(path, parameter)
  if path == nil or path == "" or path == "." then return "" end
  local parts = {}
  for part in path:gmatch("[^/]+") do
    if part ~= "." then parts[#parts + 1] = part end
  end
  local whole = table.concat(parts, "/")
  local bad = path:sub(1, 1) == "/" and "it is absolute" or ("/" .. whole .. "/"):find("/../", 1, true) and "it goes up with '..'"
    or path:find("[%z\1-\31]") and "it holds a control character" or (#path > 512 or #parts > 16) and "it is too long"
  if bad then
    return nil, errors.new("InvalidArtifactPath", ("%s is a relative sub-path of the artifact root; %s."):format(parameter, bad),
      { detail = parameter })
  end
  for i = 1, #parts do -- as far as it is there already, it must not go through a link
    local prefix = table.concat(parts, "/", 1, i)
    local name, err = artifacts.name(M.root(), prefix)
    if not name and err.kind == "ArtifactNotFound" then break end
    if not name then return nil, about(err, parameter) end
    if name ~= prefix then
      return nil, errors.new("InvalidArtifactPath", ("%s goes through a link."):format(parameter), { detail = parameter })
    end
  end
  return whole
end

--- Errors of the native part about a path of the caller's.
M.about = about

--- The path of a name below the root.
function M.path(name) return M.root() .. "/" .. name end

return M
