-- SPDX-License-Identifier: MIT
-- Types and call sites of an allocation capture. A tick names the type of the object that filled its 100 KB, so bytes by type and by site
-- are estimates; those of large objects are exact.
local json = require("lunette.json")
local wire = require("samplers.wire")

local M = {}

M.UNKNOWN = "<unknown>"
local SITES <const> = 500 -- kept: what lies behind is single ticks
local ATTRIBUTED <const> = { managed = true, dynamic = true }
local TYPE_ORDER <const> = { __order = { "typeName", "totalBytes", "eventCount", "dominantKind" } }
local SITE_ORDER <const> = { __order = { "frame", "totalBytes", "eventCount", "identity" } }

local function by_count(a, b)
  if a.events ~= b.events then return a.events > b.events end
  if a.bytes ~= b.bytes then return a.bytes > b.bytes end
  return a.type < b.type
end

--- Adds what the answer, the signals and the diff look at: types and sites, most bytes first, and whether anything has a name.
---@param artifact SampleArtifact
function M.add(artifact)
  artifact.types = artifact.profile:types()
  artifact.types_by_count = table.move(artifact.types, 1, #artifact.types, 1, {})
  table.sort(artifact.types_by_count, by_count)
  artifact.sites = {}
  for _, row in ipairs(artifact.profile:top_methods { top = SITES, rank_by = "bytes" }) do
    if row.exclusive > 0 and ATTRIBUTED[artifact.profile:frame(row.frame).kind] then artifact.sites[#artifact.sites + 1] = row end
  end
  artifact.named = false
  for _, t in ipairs(artifact.types) do artifact.named = artifact.named or t.type ~= M.UNKNOWN end
end

-- The contract knows two kinds of heaps; pinned objects are told as what they are: objects of a heap of their own that are small.
local function heap_kind(t)
  return t.kinds.Large > t.kinds.Small + (t.kinds.Pinned or 0) and "Large" or "Small"
end

--- AllocatedType[].
function M.type_rows(types, top)
  local rows = json.array({})
  for i = 1, math.min(top, #types) do
    local t = types[i]
    rows[i] = setmetatable({ typeName = wire.name(t.type), totalBytes = t.bytes, eventCount = t.events, dominantKind = heap_kind(t) },
      TYPE_ORDER)
  end
  return rows
end

--- AllocationSite[]; nil when no stack has names.
---@param artifact SampleArtifact
function M.site_rows(artifact, top)
  if #artifact.sites == 0 then return nil end
  local rows = json.array({})
  for i = 1, math.min(top, #artifact.sites) do
    local row = artifact.sites[i]
    rows[i] = setmetatable({
      frame = wire.frame(row), totalBytes = row.exclusive_bytes, eventCount = row.exclusive,
      identity = wire.identity(artifact, row.frame),
    }, SITE_ORDER)
  end
  return rows
end

return M
