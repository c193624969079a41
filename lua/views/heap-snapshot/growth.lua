-- SPDX-License-Identifier: MIT
-- heap-snapshot/growth: the types that grew between two heaps, by absolute growth, and what keeps them in the later one.
local artifacts = require("heap.artifact")
local compared = require("heap.compared")
local errors = require("lunette.errors")
local handles = require("lunette.handles")
local json = require("lunette.json")
local text = require("lunette.text")
local view = require("lunette.view")
local wire = require("heap.wire")

local MAX_ROWS <const>, MAX_PATHS <const>, TOP <const>, LEAST <const> = 200, 10, 25, 5
local ORDER <const> = { __order = { "verdict", "rankBy", "baselineHandle", "currentHandle", "totalGrowers", "growers", "notes" } }
local ROW_ORDER <const> = { __order = {
  "typeFullName", "identity", "baselineBytes", "currentBytes", "deltaBytes", "baselineInstances", "currentInstances", "deltaInstances",
  "deltaPct", "retentionPaths",
} }

local function baseline_of(opts, entry)
  local found, err = handles.get(tostring(opts.baselineHandle):upper())
  if not found then
    err.detail = opts.baselineHandle
    return nil, err
  end
  if found.kind ~= entry.kind then
    return nil, errors.invalid("baselineHandle", ("%s is %s handle; growth compares heap-snapshot handles."):format(found.id,
      text.with_article(found.kind)))
  end
  if found.id == entry.id then return nil, errors.invalid("baselineHandle", "A heap does not grow against itself.") end
  return found
end

-- Chains to the first growers in the later heap, by the position of the grower; nil and a note where they cannot be told.
local function paths_of(artifact, entry, growers)
  if not artifact.retention then return nil, "NoChains: the later heap was walked without includeRetentionPaths." end
  local ok, err = artifacts.analysed(artifact, "growth", entry)
  if not ok then return nil, "NoChains: " .. tostring(err.message) end
  local types = {}
  for i = 1, math.min(MAX_PATHS, #growers) do types[i] = growers[i].pair.type end
  local ways
  ways, err = artifact.graph:ways { types = types, depth = artifact.retention_limit }
  if not ways then return nil, "NoChains: " .. tostring(err.message) end
  return ways
end

local function row_of(artifact, grower, way)
  local p = grower.pair
  local path = way and wire.path(way)
  return setmetatable({
    typeFullName = wire.name(p.name), identity = wire.identity(artifact, p), baselineBytes = p.bytes_before or 0,
    currentBytes = p.bytes or 0, deltaBytes = grower.delta_bytes, baselineInstances = p.count_before or 0, currentInstances = p.count or 0,
    deltaInstances = grower.delta_count, deltaPct = grower.pct, retentionPaths = path and json.array { path } or nil,
  }, ROW_ORDER)
end

return view {
  kind = "heap-snapshot", name = "growth",
  project = function(artifact, opts, entry)
    local baseline, err = baseline_of(opts, entry)
    if not baseline then return nil, err end
    local by = opts.rankBy or "bytes"
    local growers = compared.growers(baseline.artifact, artifact, by, opts.minDeltaPct or LEAST)
    local ways, note = paths_of(artifact, entry, growers)
    local rows = json.array({})
    for i = 1, math.min(opts.topN or TOP, MAX_ROWS, #growers) do rows[i] = row_of(artifact, growers[i], ways and ways[i]) end
    local verdict = #growers > 0 and "leak_suspected" or "stable"
    return setmetatable({
      verdict = verdict, rankBy = by, baselineHandle = baseline.id, currentHandle = entry.id, totalGrowers = #growers, growers = rows,
      notes = note and #growers > 0 and json.array { note } or nil,
    }, ORDER), {
      summary = growers[1] and ("%s: %d types grew; most: %s by %d %s."):format(verdict, #growers, wire.name(growers[1].pair.name),
        growers[1].delta, by) or "stable: no type grew by as much.",
    }
  end,
}
