-- SPDX-License-Identifier: MIT
-- How sampled allocations look on the wire: estimates of bytes and objects with their bounds, by type and by call site.
local estimate = require("collectors.allocations_sampled.estimate")
local json = require("lunette.json")
local numbers = require("lunette.numbers")
local sys = require("lunette.sys")

local M = {}

M.MAX_NAME = 512       -- bytes of a type or method
local MAX_FRAMES <const> = 8 -- of the example stack of a site

local ESTIMATE_ORDER <const> = { __order = {
  "samples", "bytes", "bytesLow", "bytesHigh", "objects", "objectsLow", "objectsHigh", "bytesPerSecond",
} }
local TYPE_ORDER <const> = { __order = { "typeName", "share", "estimate", "largeObjectBytes" } }
local SITE_ORDER <const> = { __order = { "method", "module", "share", "estimate", "topType", "stack" } }
local SNAPSHOT_ORDER <const> = { __order = {
  "processId", "startedAt", "duration", "samplingBytes", "confidencePercent", "unseenBelowBytes", "total", "types", "sites", "byType",
  "bySite", "notes", "cost",
} }

local function cut(text)
  if #text <= M.MAX_NAME then return text end
  return sys.utf8_cut(text, M.MAX_NAME - 3) .. "..."
end

--- AllocationsSampledEstimate.
local function estimate_row(artifact, e)
  local seconds = artifact.duration_ms / 1000
  return setmetatable({
    samples = e.samples, bytes = e.bytes, bytesLow = e.bytes_low, bytesHigh = e.bytes_high, objects = e.objects, objectsLow = e.objects_low,
    objectsHigh = e.objects_high, bytesPerSecond = seconds > 0 and math.floor(e.bytes / seconds + 0.5) or nil,
  }, ESTIMATE_ORDER)
end

local function share(artifact, e) return artifact.total.bytes > 0 and numbers.round(e.bytes / artifact.total.bytes, 4) or 0 end

local function type_row(artifact, t)
  return setmetatable({
    typeName = cut(t.name), share = share(artifact, t.estimate), estimate = estimate_row(artifact, t.estimate),
    largeObjectBytes = t.large_bytes > 0 and t.large_bytes or nil,
  }, TYPE_ORDER)
end

local function stack_row(stack)
  local rows = json.array({})
  for i, name in ipairs(stack or {}) do
    if i > MAX_FRAMES then break end
    rows[i] = cut(name)
  end
  return rows
end

local function site_row(artifact, s, with_stack)
  return setmetatable({
    method = cut(s.method), module = s.module, share = share(artifact, s.estimate), estimate = estimate_row(artifact, s.estimate),
    topType = s.top_type and cut(s.top_type) or nil, stack = with_stack and stack_row(s.stack) or nil,
  }, SITE_ORDER)
end

--- AllocationsSampledType rows, the heaviest first.
function M.types(artifact, limit)
  local rows = json.array({})
  for i = 1, math.min(limit or #artifact.types, #artifact.types) do rows[i] = type_row(artifact, artifact.types[i]) end
  return rows
end

--- AllocationsSampledSite rows, the heaviest first.
function M.sites(artifact, limit, with_stack)
  local rows = json.array({})
  for i = 1, math.min(limit or #artifact.sites, #artifact.sites) do rows[i] = site_row(artifact, artifact.sites[i], with_stack) end
  return rows
end

--- What the views have in common.
function M.head(artifact)
  return {
    samplingBytes = estimate.SAMPLING_BYTES, confidencePercent = estimate.CONFIDENCE_PERCENT,
    unseenBelowBytes = estimate.detection_limit(), total = estimate_row(artifact, artifact.total),
  }
end

--- AllocationsSampledSnapshot around the given rows.
function M.snapshot(artifact, types, sites, notes)
  local s = M.head(artifact)
  s.processId, s.startedAt, s.duration = artifact.process_id, numbers.iso(artifact.started_unix_ms), numbers.timespan(artifact.duration_ms)
  s.types, s.sites, s.byType, s.bySite = artifact.n_types, artifact.n_sites, types, sites
  s.notes, s.cost = json.array(notes), artifact.cost
  return setmetatable(s, SNAPSHOT_ORDER)
end

M.VIEW_ORDER = SNAPSHOT_ORDER

return M
