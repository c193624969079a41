-- SPDX-License-Identifier: MIT
-- Where a recorded file may be read from: anywhere for a person on the command line, below the artifact root for a client.
local config = require("lunette.config")
local errors = require("lunette.errors")
local fs = require("lunette.fs")
local loop = require("lunette.loop")
local sys = require("lunette.sys")

local M = {}

local PARAMETER <const> = "traceFilePath"

local function refused(message)
  return nil, errors.new("InvalidArtifactPath", message, { detail = PARAMETER })
end

--- Whether `path` lies in `root`; both are real paths.
local function below(path, root) return path:sub(1, #root + 1) == root .. "/" end

--- The folder below which all files of the server are.
function M.root() return config.get("MCP_ARTIFACT_ROOT") or (sys.getenv("TMPDIR") or "/tmp") .. "/dotnet-diagnostics-mcp" end

local function resolve(ctx, path)
  if path == "" or path:find("%z") then return nil, errors.invalid(PARAMETER, "traceFilePath must be the path of a .nettrace file.") end
  if ctx.transport == "cli" then
    local real = fs.realpath(path)
    if not real then return nil, errors.invalid(PARAMETER, ("There is no file %s."):format(path)) end
    return real
  end
  if path:sub(1, 1) == "/" then return refused("traceFilePath is relative to the artifact root; got an absolute path.") end
  for part in path:gmatch("[^/]+") do
    if part == ".." then return refused("traceFilePath may not go up with '..'.") end
  end
  local root = fs.realpath(M.root())
  local real = root and fs.realpath(root .. "/" .. path)
  if not real then
    return nil, errors.new("ArtifactNotFound", "There is no such recording below the artifact root.", { detail = PARAMETER })
  end
  if not below(real, root) then return refused("traceFilePath leaves the artifact root through a link.") end
  return real
end

--- The real path of a recording that this request may read.
---@param ctx { transport: string }
---@param path string
---@return string?, table? err
function M.resolve(ctx, path)
  local real, err = resolve(ctx, path)
  local found = real and fs.stat(real)
  if found and found.kind ~= "file" then
    return nil, errors.invalid(PARAMETER, ("A recorded trace is a plain file, and %s is none."):format(path:match("[^/]*/*$")))
  end
  local task = real and loop.current()
  if task then task.data.recordings = setmetatable({ [real] = true }, { __index = task.data.recordings }) end
  return real, err
end

--- Whether a path is one that was resolved in this call. A script may name any; outside of calls of clients, it may be any.
---@param path any
function M.is_resolved(path)
  local task = loop.current()
  if not task or not task.data.caller then return true end
  local known = task.data.recordings
  return known ~= nil and known[path] == true
end

return M
