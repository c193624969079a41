-- SPDX-License-Identifier: MIT
-- heap-snapshot/roots-by-kind: what the runtime keeps objects by.
local artifacts = require("heap.artifact")
local roots = require("heap.roots")
local view = require("lunette.view")

return view {
  kind = "heap-snapshot", name = "roots-by-kind",
  project = function(artifact, _, entry)
    if artifact.info.roots == 0 and artifact.origin == "gcdump" then
      return nil, artifacts.unavailable(artifact, "roots-by-kind", entry, "it tells of no roots")
    end
    local counted = artifacts.only_counted(artifact, "roots-by-kind")
    if counted then return nil, counted end
    local rows = roots.rows(artifact)
    return rows, {
      fields = { quality = artifacts.quality(artifact) },
      summary = ("%d roots of %d kinds."):format(artifact.info.roots, #rows),
    }
  end,
}
