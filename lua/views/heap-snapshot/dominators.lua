-- SPDX-License-Identifier: MIT
-- heap-snapshot/dominators: the dominator tree level by level: what an object (by address), or all roots together, keep directly; without
-- address also the whole tree by type, cut to what is large. Beyond the contract.
local artifacts = require("heap.artifact")
local objects = require("heap.objects")
local json = require("lunette.json")
local numbers = require("lunette.numbers")
local view = require("lunette.view")
local wire = require("heap.wire")

local DEPTH <const> = 6
local LEAST <const> = 50 -- a part of all that is smaller than 1/LEAST is not shown in the tree
local ORDER <const> = { __order = {
  "address", "typeFullName", "retainedBytes", "retainedObjects", "dominatorAddress", "childCount", "children", "tree",
} }
local NODE_ORDER <const> = { __order = {
  "typeFullName", "objectCount", "ownBytes", "retainedBytes", "retainedBytesPercent", "objectAddress", "children",
} }

local function node_of(artifact, row)
  return setmetatable({
    typeFullName = row.name and wire.name(row.name) or nil, objectCount = row.count, ownBytes = row.own, retainedBytes = row.retained,
    retainedBytesPercent = wire.percent(row.retained, artifact.info.bytes),
    objectAddress = row.address and numbers.address(row.address) or nil,
  }, NODE_ORDER)
end

-- The rows of graph:tiles() as a tree; what was too small to show stays out.
local function tree_of(artifact)
  local rows, err = artifact.graph:tiles { depth = DEPTH, least = LEAST }
  if not rows then return nil, err end
  local nodes = {}
  for i, row in ipairs(rows) do
    nodes[i] = node_of(artifact, row)
    local parent = i > 1 and row.name and nodes[row.parent]
    if parent then
      parent.children = parent.children or json.array({})
      parent.children[#parent.children + 1] = nodes[i]
    end
  end
  return nodes[1]
end

local function children_of(artifact, options, at)
  local rows, total, bytes = artifact.graph:top { top = options.topN, under = at and at.address or nil, roots = not at or nil }
  if not rows then return nil, total end
  local list = json.array({})
  for i, row in ipairs(rows) do list[i] = wire.object(artifact, row) end
  return list, total, bytes
end

return view {
  kind = "heap-snapshot", name = "dominators",
  project = function(artifact, options, entry)
    local ok, err = artifacts.analysed(artifact, "dominators", entry)
    if not ok then return nil, err end
    local at
    if options.address then
      at, err = objects.find(artifact, options.address)
      if not at then return nil, err end
    end
    local children, total, bytes = children_of(artifact, options, at)
    if not children then return nil, total end
    local tree
    if not at then
      tree, err = tree_of(artifact)
      if not tree then return nil, err end
    end
    return setmetatable({
      address = at and objects.text(options.address) or nil, typeFullName = at and wire.name(at.name) or nil,
      retainedBytes = at and (at.retained or 0) or bytes, retainedObjects = at and (at.objects or 0) or artifact.info.reached,
      dominatorAddress = at and at.dominator and numbers.address(at.dominator) or nil,
      childCount = total, children = children, tree = tree,
    }, ORDER), {
      fields = { address = at and objects.text(options.address), quality = artifacts.quality(artifact, total > #children) },
      summary = ("%s keeps %d objects directly."):format(at and wire.name(at.name) or "No single object but all roots together", total),
    }
  end,
}
