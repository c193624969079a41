-- SPDX-License-Identifier: MIT
-- heap-snapshot/retained: what would go with it: types and objects by the bytes that only they keep alive. Beyond the contract.
local artifacts = require("heap.artifact")
local json = require("lunette.json")
local view = require("lunette.view")
local wire = require("heap.wire")

local ORDER <const> = { __order = {
  "reachableBytes", "reachableObjects", "unreachableBytes", "unreachableObjects", "together", "byType", "objects", "notes",
} }
local TOGETHER_ORDER <const> = { __order = { "typeFullName", "retainedBytes", "objectCount" } }

-- Rows of the types that match, and the objects that keep most, of the first type when a filter picks one.
local function rows_of(artifact, options)
  local graph = artifact.graph
  local types, all = graph:types { by = "retained", top = options.topN, contains = options.typeFullName }
  local first = options.typeFullName and types[1]
  local objects, err = graph:top { top = options.topN, type = first and first.type or nil }
  if not objects then return nil, err end
  local list = json.array({})
  for i, row in ipairs(objects) do list[i] = wire.object(artifact, row) end
  return types, all, list
end

-- Exactly what would go with all objects of one type: a walk of its own.
local function together_of(artifact, row)
  local reach, err = artifact.graph:together(row.type)
  if not reach then return nil, err end
  return setmetatable({ typeFullName = wire.name(row.name), retainedBytes = reach.bytes, objectCount = reach.objects }, TOGETHER_ORDER)
end

return view {
  kind = "heap-snapshot", name = "retained",
  project = function(artifact, options, entry)
    local ok, err = artifacts.analysed(artifact, "retained", entry)
    if not ok then return nil, err end
    local types, all, objects = rows_of(artifact, options)
    if not types then return nil, all end
    local info, together = artifact.info, nil
    if options.typeFullName and types[1] then
      together, err = together_of(artifact, types[1])
      if not together then return nil, err end
    end
    return setmetatable({
      reachableBytes = info.reached_bytes, reachableObjects = info.reached, unreachableBytes = info.unreached_bytes,
      unreachableObjects = info.unreached, together = together, byType = wire.type_stats(artifact, types, true), objects = objects,
      notes = json.array { "ByType: the bytes that only objects of the type keep alive; what several of them keep only together is not in "
        .. "it (typeFullName tells it, as together). Types overlap: one inside another counts for both." },
    }, ORDER), {
      fields = { filterTypeFullName = options.typeFullName, quality = artifacts.quality(artifact, all > #types) },
      summary = types[1] and ("Most is kept by %s: %d of %d reachable bytes."):format(wire.name(types[1].name), types[1].retained,
        info.reached_bytes) or "No type matches.",
    }
  end,
}
