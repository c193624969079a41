-- SPDX-License-Identifier: MIT
-- The first page of a batch with CPU samples or allocations: what their captures show first. Nothing is collected for it.
local allocated = require("samplers.allocated")
local leaders = require("samplers.leaders")
local triage = require("samplers.views.triage")
local wire = require("samplers.wire")

local M = {}

M.ROWS = 5
M.THRESHOLD = 50 -- of the hot path, in percent
local ORDER <const> = { __order = {
  "topCpuSelfTime", "topCpuWaitCategories", "hotPathLeaf", "hotPathDepth", "topAllocationTypes", "topAllocationCallsites",
} }

local function artifact_of(result)
  local handle = result and not result.error and result.extras.handle
  return handle and handle.artifact or nil
end

local function add_cpu(digest, artifact)
  local rows, waits = leaders.of(artifact, M.ROWS)
  digest.topCpuSelfTime = wire.methods(artifact, rows)
  digest.topCpuWaitCategories = triage.wait_rows(artifact, waits, M.ROWS)
  local path = artifact.profile:hot_path { threshold = M.THRESHOLD }
  local leaf = path[#path]
  digest.hotPathLeaf, digest.hotPathDepth = leaf and ("%s!%s"):format(leaf.module, wire.name(leaf.method)) or nil, #path
end

--- InvestigationDigest; nil without a capture of either. A half whose entry is not there, or failed, is absent.
---@param cpu FanoutResult?
---@param allocation FanoutResult?
function M.of(cpu, allocation)
  local samples, ticks = artifact_of(cpu), artifact_of(allocation)
  if not samples and not ticks then return nil end
  local digest = setmetatable({}, ORDER)
  if samples then add_cpu(digest, samples) end
  if ticks then
    digest.topAllocationTypes = allocated.type_rows(ticks.types, M.ROWS)
    digest.topAllocationCallsites = allocated.site_rows(ticks, M.ROWS)
  end
  return digest
end

return M
