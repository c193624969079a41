-- SPDX-License-Identifier: MIT
-- How samples look on the wire: frames, rows of methods and groups, splits. Percentages are of all samples of the capture.
local identity = require("samplers.identity")
local json = require("lunette.json")
local numbers = require("lunette.numbers")
local sys = require("lunette.sys")

local M = {}

M.MAX_NAME = 400 -- bytes of a method or module: generic ones grow without end

local SPLIT_ORDER <const> = { __order = { "runningSamples", "waitingSamples", "unknownSamples" } }
local FRAME_ORDER <const> = { __order = { "module", "method" } }
local EVIDENCE_ORDER <const> = { __order = { "backend", "kind" } }
local METHOD_ORDER <const> = { __order = {
  "module", "method", "inclusiveSamples", "exclusiveSamples", "inclusivePercent", "exclusivePercent", "inclusiveMs", "exclusiveMs",
  "inclusiveBytes", "exclusiveBytes", "selfSamples", "waitReason", "asyncFolded", "identity",
} }
local GROUP_ORDER <const> = { __order = {
  "key", "inclusiveSamples", "exclusiveSamples", "inclusivePercent", "exclusivePercent", "inclusiveMs", "exclusiveMs",
  "inclusiveBytes", "exclusiveBytes", "selfSamples",
} }
local HOTSPOT_ORDER <const> = { __order = { "frame", "inclusiveSamples", "exclusiveSamples", "selfSamples", "identity" } }

--- A name of the target, as long as an answer has room for.
---@param name string
function M.name(name)
  if #name <= M.MAX_NAME then return name end
  return sys.utf8_cut(name, M.MAX_NAME - 3) .. "..."
end

--- SampledFrame.
function M.frame(row) return setmetatable({ module = M.name(row.module), method = M.name(row.method) }, FRAME_ORDER) end

--- SelfSampleSplit of a row, or of the whole capture.
function M.split(counts)
  return setmetatable({ runningSamples = counts.running, waitingSamples = counts.waiting, unknownSamples = counts.unknown }, SPLIT_ORDER)
end

--- CpuEvidence; nil for samples that are no CPU samples.
function M.evidence(artifact)
  local e = artifact.evidence
  return e and setmetatable({ backend = e.backend, kind = e.kind }, EVIDENCE_ORDER) or nil
end

--- Samples as a share of all of the capture, in percent.
---@param artifact SampleArtifact
---@param n integer
function M.percent(artifact, n)
  local all = artifact.info.samples
  return all > 0 and numbers.round(100 * n / all, 2) or 0
end

--- MethodIdentity of the frame of a row; nil when it has none.
---@param artifact SampleArtifact
---@param frame integer
function M.identity(artifact, frame)
  local found = artifact.profile:frame(frame)
  if artifact.ilc and artifact.ilc[found.method] then return identity.of_symbol(found.method, found.module) end
  local module = found.module_index and artifact.modules[found.module_index]
  return identity.of(found, module, artifact.sources and artifact.sources[frame])
end

-- Time of threads, with one digit; nil where a capture knows none.
local function ms(ns) return ns and numbers.round(ns / 1e6, 1) end

-- What rows of methods and groups have in common.
local function counted(artifact, row)
  return {
    inclusiveSamples = row.inclusive, exclusiveSamples = row.exclusive, inclusivePercent = M.percent(artifact, row.inclusive),
    exclusivePercent = M.percent(artifact, row.exclusive), inclusiveMs = ms(row.inclusive_ns), exclusiveMs = ms(row.exclusive_ns),
    inclusiveBytes = row.inclusive_bytes, exclusiveBytes = row.exclusive_bytes,
    selfSamples = M.split(row),
  }
end

--- TopMethodRow.
---@param artifact SampleArtifact
---@param row table        of the profile
---@param bare boolean?    without the identity
function M.method(artifact, row, bare)
  local out = counted(artifact, row)
  out.module, out.method = M.name(row.module), M.name(row.method)
  out.waitReason, out.asyncFolded = row.wait_reason, row.async or false
  if not bare then out.identity = M.identity(artifact, row.frame) end
  return setmetatable(out, METHOD_ORDER)
end

--- TopMethodRow[].
function M.methods(artifact, rows)
  local list = json.array({})
  for i, row in ipairs(rows) do list[i] = M.method(artifact, row) end
  return list
end

--- CpuGroupRow.
function M.group(artifact, row, key)
  local out = counted(artifact, row)
  out.key = M.name(key)
  return setmetatable(out, GROUP_ORDER)
end

--- Hotspot.
function M.hotspot(artifact, row)
  return setmetatable({
    frame = M.frame(row), inclusiveSamples = row.inclusive, exclusiveSamples = row.exclusive, selfSamples = M.split(row),
    identity = M.identity(artifact, row.frame),
  }, HOTSPOT_ORDER)
end

return M
