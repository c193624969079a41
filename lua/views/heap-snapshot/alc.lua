-- SPDX-License-Identifier: MIT
-- heap-snapshot/alc: assembly load contexts, and what keeps those that should be able to go.
local artifacts = require("heap.artifact")
local json = require("lunette.json")
local numbers = require("lunette.numbers")
local sections = require("heap.sections")
local view = require("lunette.view")
local wire = require("heap.wire")

local MAX_PATHS <const> = 16
local ORDER <const> = { __order = {
  "name", "typeFullName", "address", "isCollectible", "isDefault", "isUnloading", "assemblies", "loaderAllocatorAddress", "retention",
} }
local rows_of = sections.view("alc")

local function before(a, b)
  if a.isCollectible ~= b.isCollectible then return a.isCollectible end
  if #a.assemblies ~= #b.assemblies then return #a.assemblies > #b.assemblies end
  return a.address < b.address
end

-- The way from a root to what keeps the types of a context alive: its loader allocator, which each of their objects refers to.
local function retention_of(artifact, row)
  local text = type(row.loaderAllocatorAddress) == "string" and row.loaderAllocatorAddress or row.address
  local ways = artifact.graph:ways { address = numbers.parse_address(text), depth = artifacts.GCROOT_DEPTH }
  local way = ways and ways[1]
  return way and #way > 0 and wire.chain(way) or nil
end

return view {
  kind = "heap-snapshot", name = "alc",
  project = function(artifact, options, entry)
    local rows, err = rows_of(artifact, { topN = math.huge }, entry)
    if not rows then return nil, err end
    local sorted, contexts, paths = { table.unpack(rows) }, json.array({}), 0
    table.sort(sorted, before)
    local known = artifact.info.roots > 0 and artifacts.analysed(artifact, "alc", entry)
    for i = 1, math.min(#sorted, options.topN or #sorted) do
      local shown = setmetatable({}, ORDER)
      for k, v in pairs(sorted[i]) do shown[k] = v end
      if shown.isCollectible and known and paths < MAX_PATHS then
        paths = paths + 1
        shown.retention = retention_of(artifact, sorted[i])
      end
      contexts[i] = shown
    end
    local unloading = 0
    for _, row in ipairs(sorted) do unloading = unloading + (row.isUnloading and 1 or 0) end
    return {
      contexts = contexts,
      notes = json.array { ("Retention: the shortest way from a root to the context's loader allocator, for at most %d collectible "
        .. "contexts; none is no proof that a context can be collected."):format(MAX_PATHS) },
    }, { summary = ("%d load contexts; %d of them were told to unload and are still there."):format(#sorted, unloading) }
  end,
}
