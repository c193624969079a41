-- SPDX-License-Identifier: MIT
-- heap-snapshot/gcroot: why one object is alive: the shortest way from a root to it.
local artifacts = require("heap.artifact")
local objects = require("heap.objects")
local json = require("lunette.json")
local view = require("lunette.view")
local wire = require("heap.wire")

local ORDER <const> = { __order = { "address", "typeFullName", "retainedBytes", "chain", "truncated", "warnings" } }

-- What holds the object, in words: "StaticVar Shop.Cart.All keeps it over 3 references."
local function sentence(way)
  if #way == 0 then return "No root keeps this object." end
  local root, steps = way.root and ("%s %s"):format(way.kind, wire.name(way.root)) or way.kind, way.length - 1
  if steps == 0 then return ("%s refers to it directly."):format(root) end
  return ("%s keeps it over %d %s."):format(root, steps, steps == 1 and "reference" or "references")
end

return view {
  kind = "heap-snapshot", name = "gcroot",
  project = function(artifact, options, entry)
    local ok, err = artifacts.analysed(artifact, "gcroot", entry)
    if not ok then return nil, err end
    local at
    at, err = objects.find(artifact, options.address)
    if not at then return nil, err end
    local ways
    ways, err = artifact.graph:ways { address = at.address, depth = artifacts.GCROOT_DEPTH }
    if not ways then return nil, err end
    local way = ways[1]
    local warnings = #way == 0 and json.array { "NoRoot: no root that is known keeps this object: it is garbage that is not collected yet, "
      .. "or it is kept in a way that the source does not tell." } or nil
    return setmetatable({
      address = objects.text(options.address), typeFullName = wire.name(at.name), retainedBytes = at.retained, chain = wire.chain(way),
      truncated = (way.length or 0) > #way, warnings = warnings,
    }, ORDER), {
      fields = { address = objects.text(options.address), quality = artifacts.quality(artifact) },
      summary = sentence(way),
    }
  end,
}
