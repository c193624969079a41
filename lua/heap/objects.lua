-- SPDX-License-Identifier: MIT
-- One object by its address.
local errors = require("lunette.errors")
local numbers = require("lunette.numbers")

local M = {}

--- The object that begins at an address, as graph:object() tells it.
---@param artifact HeapArtifact
---@param address string
---@return table?, table? err
function M.find(artifact, address)
  local at = artifact.graph:object(numbers.parse_address(address))
  if at then return at end
  return nil, M.none(address, " of this snapshot")
end

--- That no object begins at an address.
---@param address string   as it was given
---@param where string     of what, with a space before it; or ""
function M.none(address, where)
  return errors.invalid("address", ("No object%s begins at %s. Addresses of objects are in retention-paths, retained and dominators; a "
    .. "collection may have moved an object since."):format(where, address))
end

--- An address as answers have it, in whatever form the caller gave it.
---@param address string
---@return string
function M.text(address) return numbers.address(numbers.parse_address(address)) end

return M
