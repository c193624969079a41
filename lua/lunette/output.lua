-- SPDX-License-Identifier: MIT
-- output: the file that a command was told to write.
local fs = require("lunette.fs")

local M = {}

--- Whether there is a folder for the file; nil and why. A command asks before it takes its time.
---@param path string
---@return true?, string? why
function M.has_folder(path)
  local folder = path:match("^(.*)/[^/]*$")
  if folder and folder ~= "" and not fs.stat(folder) then return nil, "there is no folder " .. folder end
  return true
end

--- Writes a file. A new one is its owner's alone; what is there already is written to, not replaced: it may be a device, a pipe or a link.
---@param path string
---@param content string
---@return true?, any? why
function M.write(path, content)
  if not fs.stat(path) then
    local ok, why = M.has_folder(path)
    if not ok then return nil, why end
    return fs.write_private(path, content)
  end
  local file, why = io.open(path, "w")
  if not file then return nil, why end
  local ok
  ok, why = file:write(content)
  local closed, close_why = file:close()
  if not ok or not closed then return nil, why or close_why end
  return true
end

return M
