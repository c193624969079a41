-- SPDX-License-Identifier: MIT
-- heap-snapshot/retention-paths: of the largest types, or of those whose names hold a text, an object that stands for most of them, and the
-- shortest way from a root to it.
local artifacts = require("heap.artifact")
local errors = require("lunette.errors")
local hints = require("lunette.hints")
local json = require("lunette.json")
local view = require("lunette.view")

local MAX <const> = 50

local function missing(artifact, entry)
  return errors.new("RetentionPathsMissing", "The heap was walked without includeRetentionPaths.", { detail = entry.id, hints = {
    hints.new("inspect_heap", "Walk the heap again, with retention paths.", {
      source = artifact.origin, dumpFilePath = artifact.dump_path, includeRetentionPaths = true,
      processId = not artifact.dump_path and artifact.process_id or nil,
    }, "high") } })
end

return view {
  kind = "heap-snapshot", name = "retention-paths",
  project = function(artifact, options, entry)
    if not artifact.retention then return nil, missing(artifact, entry) end
    local ok, err = artifacts.analysed(artifact, "retention-paths", entry)
    if not ok then return nil, err end
    local rows, all = artifact.graph:types {
      by = "bytes", contains = options.typeFullName,
      top = math.min(options.topN or artifacts.EXAMPLE_TYPES, options.typeFullName and MAX or artifacts.EXAMPLE_TYPES),
    }
    local paths
    paths, err = artifacts.paths(artifact, rows, artifact.retention_limit)
    if not paths then return nil, err end
    return json.array(paths), {
      fields = { filterTypeFullName = options.typeFullName, quality = artifacts.quality(artifact, all > #rows) },
      summary = ("The ways from roots to %d types%s."):format(#paths, #paths < #rows
        and ("; %d are kept by no root that is known"):format(#rows - #paths) or ""),
    }
  end,
}
