-- SPDX-License-Identifier: MIT
-- Roots by their kind: how many, and the bytes of the objects that they refer to directly.
local json = require("lunette.json")

local M = {}

local ORDER <const> = { __order = {
  "rootKind", "rootCount", "distinctTargetObjects", "directlyReferencedBytes", "pinnedRootCount", "interiorRootCount",
} }

--- RootKindStat rows, most bytes first.
---@param artifact HeapArtifact
function M.rows(artifact)
  local list = json.array({})
  for i, r in ipairs(artifact.graph:roots()) do
    list[i] = setmetatable({
      rootKind = r.kind, rootCount = r.count, distinctTargetObjects = r.objects, directlyReferencedBytes = r.bytes,
      pinnedRootCount = r.pinned, interiorRootCount = r.interior,
    }, ORDER)
  end
  table.sort(list, function(a, b)
    if a.directlyReferencedBytes ~= b.directlyReferencedBytes then return a.directlyReferencedBytes > b.directlyReferencedBytes end
    if a.rootCount ~= b.rootCount then return a.rootCount > b.rootCount end
    return a.rootKind < b.rootKind
  end)
  return list
end

return M
