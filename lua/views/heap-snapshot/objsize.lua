-- SPDX-License-Identifier: MIT
-- heap-snapshot/objsize: the bytes of all that can be reached from one object.
local artifacts = require("heap.artifact")
local objects = require("heap.objects")
local view = require("lunette.view")
local wire = require("heap.wire")

local MAX_OBJECTS <const> = 50000000
local ORDER <const> = { __order = { "address", "typeFullName", "retainedBytes", "objectCount", "truncated" } }

return view {
  kind = "heap-snapshot", name = "objsize",
  project = function(artifact, options, entry)
    local q = artifact.quality
    if q and (q.gaps or 0) > 0 then
      return nil, artifacts.unavailable(artifact, "objsize", entry, "events of it were lost, so its references are not known")
    end
    local counted = artifacts.only_counted(artifact, "objsize")
    if counted then return nil, counted end
    local at, err = objects.find(artifact, options.address)
    if not at then return nil, err end
    local reach
    reach, err = artifact.graph:reach(at.address, MAX_OBJECTS)
    if not reach then return nil, err end
    return setmetatable({
      address = objects.text(options.address), typeFullName = wire.name(at.name), retainedBytes = reach.bytes, objectCount = reach.objects,
      truncated = reach.truncated,
    }, ORDER), {
      fields = { address = objects.text(options.address), quality = artifacts.quality(artifact) },
      summary = ("%d bytes in %d objects can be reached from it, shared ones included."):format(reach.bytes, reach.objects),
    }
  end,
}
