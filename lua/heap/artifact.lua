-- SPDX-License-Identifier: MIT
-- The artifact behind a heap-snapshot handle, whatever it was made of: the graph of objects, and what its source tells beside it.
local errors = require("lunette.errors")
local hints = require("lunette.hints")
local json = require("lunette.json")
local numbers = require("lunette.numbers")
local wire = require("heap.wire")

local M = {}

M.TYPES_KEPT = 200     -- rows of each list in the resource
M.EXAMPLE_TYPES = 10   -- types that get a chain
M.GCROOT_DEPTH = 64

local HEAP_ORDER <const> = { __order = {
  "totalBytes", "gen0Bytes", "gen1Bytes", "gen2Bytes", "largeObjectHeapBytes", "pinnedObjectHeapBytes", "committedBytes",
  "objectCount", "referenceCount", "reachableBytes", "unreachableBytes",
} }
local QUALITY_ORDER <const> = { __order = {
  "timedOut", "readerFailed", "gcStopObserved", "streamCompleted", "missingTypeNames", "topNProjected", "lostEventCount",
} }
local RESOURCE_ORDER <const> = { __order = {
  "origin", "processId", "capturedAt", "walkDuration", "runtime", "heap", "dumpFilePath", "dumpFileSizeBytes", "warnings",
  "topTypesByBytes", "topTypesByInstances",
} }

---@class HeapArtifact
---@field origin "live"|"dump"|"gcdump"
---@field graph userdata          of lunette.graph
---@field info table              its info()
---@field process_id integer
---@field started_unix_ms integer
---@field duration_ms number      of the walk
---@field suspend_ms number?      how long the target stood still
---@field runtime table           DumpRuntimeInfo
---@field sizes table?            { gen0, gen1, gen2, large, pinned, committed } in bytes; absent ones were not measured
---@field quality table?          of a gcdump: { timed_out, reader_failed, gc_stopped, completed, no_name, gaps }
---@field retention boolean       whether roots were captured, so that chains can be told
---@field totals boolean?         its objects were counted by type, and not kept
---@field retention_limit integer length of chains
---@field sections table<string, any>   what views of a walked heap answer, by the view's name
---@field mvids table<string, string>?  version ids of modules by path
---@field dump_path string?
---@field dump_bytes integer?
---@field exported_trace string?
---@field warnings string[]
---@field notes string[]

--- DumpHeapSummary.
---@param artifact HeapArtifact
function M.heap(artifact)
  local s, info = artifact.sizes or {}, artifact.info
  return setmetatable({
    totalBytes = info.bytes, gen0Bytes = s.gen0, gen1Bytes = s.gen1, gen2Bytes = s.gen2, largeObjectHeapBytes = s.large,
    pinnedObjectHeapBytes = s.pinned, committedBytes = s.committed, objectCount = info.objects,
    referenceCount = not artifact.totals and info.references or nil,
    reachableBytes = info.reached_bytes, unreachableBytes = info.unreached_bytes,
  }, HEAP_ORDER)
end

--- GcDumpQuality; nil of another origin. projected: the answer has less than all types.
function M.quality(artifact, projected)
  local q = artifact.quality
  if not q then return nil end
  return setmetatable({
    timedOut = q.timed_out, readerFailed = q.reader_failed, gcStopObserved = q.gc_stopped, streamCompleted = q.completed,
    missingTypeNames = q.no_name, topNProjected = projected or false,
  }, QUALITY_ORDER)
end

--- The artifact completed: its graph's figures, its methods.
---@param artifact table
---@return HeapArtifact
function M.complete(artifact)
  artifact.info, artifact.sections = artifact.graph:info(), artifact.sections or {}
  artifact.warnings, artifact.notes = artifact.warnings or {}, artifact.warnings or {}
  artifact.close = function() artifact.graph:close() end
  artifact.resource = M.resource
  return artifact
end

-- ---- what a view needs ------------------------------------------------------------------------------------------------------------

local function retake(artifact, arguments)
  local pid = artifact.process_id
  local all = { source = artifact.dump_path and "dump" or "live", dumpFilePath = artifact.dump_path }
  if not artifact.dump_path and pid ~= 0 then all.processId = pid end
  for k, v in pairs(arguments or {}) do all[k] = v end
  return all
end

--- The error of a view that a gcdump cannot answer, with the capture's quality, so that nothing is read as an observed zero.
function M.unavailable(artifact, view, entry, why)
  local err = errors.new("ViewUnavailableForGcDump", ("A gcdump cannot answer the view %s: %s."):format(view,
    why or "its events tell of objects, references and roots only"), { detail = view, hints = {
      hints.new("query_snapshot", "What a gcdump answers.", { handle = entry.id, view = "top-types" }, "high"),
      hints.new("inspect_heap", "Walk the heap itself.", retake(artifact, { source = "live" })),
    } })
  err.data = { handle = entry.id, view = view, origin = artifact.origin, processId = entry.process_id,
    capturedAt = numbers.iso(entry.started_unix_ms), quality = M.quality(artifact, true) }
  return err
end

--- The error of a view for which something was not asked when the heap was walked.
function M.not_captured(artifact, view, parameter)
  return errors.new("ViewNotCaptured", ("The heap was walked without %s, which the view %s needs."):format(parameter, view),
    { detail = view, hints = { hints.new("inspect_heap", "Walk it again.", retake(artifact, { [parameter] = true }), "high") } })
end

--- The error of a view that looks at objects, of a heap whose objects were only counted; nil of any other.
function M.only_counted(artifact, view)
  if not artifact.totals then return nil end
  return errors.new("ViewNotCaptured", ("The heap was only counted (detail=totals), and the view %s looks at its objects."):format(view),
    { detail = view, hints = { hints.new("inspect_heap", "Walk it and keep its objects.", retake(artifact, { detail = "graph" }),
      "high") } })
end

--- Makes sure that the graph can be asked what keeps what: true; nil, err where it has no references or roots.
---@param artifact HeapArtifact
---@param view string
---@param entry Handle
function M.analysed(artifact, view, entry)
  local counted = M.only_counted(artifact, view)
  if counted then return nil, counted end
  local q = artifact.quality
  if q and (q.gaps or 0) > 0 then
    return nil, M.unavailable(artifact, view, entry, "events of it were lost, so its references are not known")
  end
  if artifact.info.roots == 0 then
    if artifact.origin == "gcdump" then return nil, M.unavailable(artifact, view, entry, "it tells of no roots") end
    return nil, errors.new("RetentionPathsMissing", "The heap was walked without its roots, so what keeps an object is not known.",
      { detail = entry.id, hints = { hints.new("inspect_heap", "Walk it again, with retention paths.",
        retake(artifact, { includeRetentionPaths = true }), "high") } })
  end
  if artifact.info.reached then return true end
  local ok, err = artifact.graph:analyse()
  if not ok then return nil, err end
  artifact.info = artifact.graph:info()
  return true
end

-- ---- chains -------------------------------------------------------------------------------------------------------------------------

--- Chains to the telling object of each of these types, in their order; types that no root keeps are left out.
---@param artifact HeapArtifact   analysed
---@param rows table[]            of graph:types()
---@param depth integer
function M.paths(artifact, rows, depth)
  local types = {}
  for i, row in ipairs(rows) do types[i] = row.type end
  local ways, err = artifact.graph:ways { types = types, depth = depth }
  if not ways then return nil, err end
  local list = json.array({})
  for _, way in ipairs(ways) do list[#list + 1] = wire.path(way) end
  return list
end

-- ---- the resource -------------------------------------------------------------------------------------------------------------------

--- HeapSnapshotArtifact: metadata only, whoever asks.
function M.resource(artifact, entry)
  local graph = artifact.graph
  local body = {
    origin = artifact.origin, processId = entry.process_id, capturedAt = numbers.iso(entry.started_unix_ms),
    walkDuration = numbers.timespan(entry.duration_ms), runtime = artifact.runtime, heap = M.heap(artifact),
    topTypesByBytes = wire.type_stats(artifact, (graph:types { by = "bytes", top = M.TYPES_KEPT })),
    topTypesByInstances = wire.type_stats(artifact, (graph:types { by = "instances", top = M.TYPES_KEPT })),
    dumpFilePath = artifact.dump_path, dumpFileSizeBytes = artifact.dump_bytes,
    warnings = #artifact.warnings > 0 and json.array { table.unpack(artifact.warnings) } or nil,
  }
  if artifact.info.reached then body.rootsByKind = require("heap.roots").rows(artifact) end
  for _, section in pairs(artifact.sections) do
    local field = type(section) == "table" and section.resource
    if field then body[field] = section.rows end
  end
  return setmetatable(body, RESOURCE_ORDER)
end

return M
