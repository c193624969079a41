-- SPDX-License-Identifier: MIT
-- The raw stream of a capture as a file below the artifact root: made for the window, kept only when the capture succeeded.
local crypto = require("lunette.crypto")
local errors = require("lunette.errors")
local fs = require("lunette.fs")
local log = require("lunette.log")
local loop = require("lunette.loop")
local reaper = require("artifacts.reaper")
local recordings = require("lunette.recordings")

local M = {}

M.FOLDER = "traces"
local RANDOM <const> = 8 -- characters: two captures of one second get two names

local Trace = {}
Trace.__index = Trace

--- Takes the file away, unless it was kept. May be called twice.
function Trace:discard()
  if self.done then return end
  self.done = true
  local ok, err = fs.remove(self.path)
  if ok or not fs.stat(self.path) then return end
  log.warning("traces", "a trace could not be removed", { path = self.path, error = tostring(err) })
end
Trace.__close = Trace.discard

--- Keeps the file. Its path, relative to the artifact root.
---@return string
function Trace:keep()
  self.done = true
  return self.name
end

--- A new file for the stream of a process. It is removed at the end of the task, unless it is kept.
---@param pid integer
---@return table? trace, table? err
function M.new(pid)
  local name = ("%s/%s-%d-%s.nettrace"):format(M.FOLDER, os.date("!%Y%m%dT%H%M%SZ", loop.unix_ms() // 1000), pid,
    crypto.crockford(RANDOM):lower())
  local root = recordings.root()
  local ok, err = fs.mkdirs(root .. "/" .. M.FOLDER)
  if not ok then
    return nil, errors.new(err.kind == "PermissionDenied" and err.kind or "Internal", ("The folder for traces below %s cannot be made: %s. "
      .. "Set MCP_ARTIFACT_ROOT to a folder that can be written to."):format(root, tostring(err.message)), { hints = {} })
  end
  reaper.sweep()
  local trace = setmetatable({ name = name, path = root .. "/" .. name }, Trace)
  loop.on_cleanup(function() trace:discard() end)
  return trace
end

return M
