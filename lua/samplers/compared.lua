-- SPDX-License-Identifier: MIT
-- What is compared of two sample captures: methods by their share of samples, or types by their rate of bytes; and what their evidence
-- allows to say.
local numbers = require("lunette.numbers")
local wire = require("samplers.wire")

local M = {}

local ALLOCATION <const>, CPU <const> = "allocation-sample", "cpu-sample"
local MEASURED <const> = "OsOnCpuSamples"
local KEYS <const> = 200 -- methods or types of one capture that a journey has as keys, most first

local METHOD_ORDER <const> = { __order = { "exclusiveSamples", "inclusiveSamples", "exclusivePercent" } }
local BYTES_ORDER <const> = { __order = { "totalBytes", "allocCount", "bytesPerSecond", "allocCountPerSecond", "durationSeconds" } }

local function seconds(artifact) return math.max(artifact.duration_ms, 1) / 1000 end

-- ---- rows ---------------------------------------------------------------------------------------------------------------------------

local function percent(artifact, counts) return 100 * counts.exclusive / math.max(1, artifact.info.samples) end

local function method_metric(artifact, counts)
  if not counts then return nil end
  return setmetatable({
    exclusiveSamples = counts.exclusive, inclusiveSamples = counts.inclusive,
    exclusivePercent = numbers.round(percent(artifact, counts), 4),
  }, METHOD_ORDER)
end

-- A method takes part where it has samples of its own.
local function own(counts) return counts and counts.exclusive > 0 and counts or nil end

local function method_rows(before, after)
  local rows = {}
  for _, pair in ipairs(after.profile:diff(before.profile)) do
    local b, a = own(pair.before), own(pair.after)
    if a or b then
      rows[#rows + 1] = {
        name = pair.method, before = b and percent(before, b), after = a and percent(after, a),
        render = function()
          return {
            symbol = { module = wire.name(pair.module), methodFullName = wire.name(pair.method) },
            identity = a and wire.identity(after, a.frame) or b and wire.identity(before, b.frame) or nil,
          }, method_metric(before, b), method_metric(after, a)
        end,
      }
    end
  end
  return rows
end

local function type_metric(artifact, t)
  if not t then return nil end
  local s = seconds(artifact)
  return setmetatable({
    totalBytes = t.bytes, allocCount = t.events, bytesPerSecond = numbers.round(t.bytes / s, 1),
    allocCountPerSecond = numbers.round(t.events / s, 3), durationSeconds = numbers.round(s, 3),
  }, BYTES_ORDER)
end

local function type_rows(before, after)
  local by_name, names, rows = {}, {}, {}
  for side, artifact in ipairs { before, after } do
    for _, t in ipairs(artifact.types) do
      if not by_name[t.type] then
        by_name[t.type], names[#names + 1] = {}, t.type
      end
      by_name[t.type][side] = t
    end
  end
  for i, name in ipairs(names) do
    local b, a = by_name[name][1], by_name[name][2]
    rows[i] = {
      name = name, before = b and b.bytes / seconds(before), after = a and a.bytes / seconds(after),
      render = function() return { typeFullName = wire.name(name) }, type_metric(before, b), type_metric(after, a) end,
    }
  end
  return rows
end

--- The rows of two captures by their primary metric: the share of exclusive samples in percent, or bytes a second.
---@param kind string   of the handles
---@return ComparedRow[]
function M.rows(kind, before, after)
  return kind == ALLOCATION and type_rows(before, after) or method_rows(before, after)
end

-- ---- what the evidence allows -------------------------------------------------------------------------------------------------------

local function kinds_of(artifacts)
  local measured, frequency = 0, 0
  for _, artifact in ipairs(artifacts) do
    local evidence = artifact.evidence
    if evidence and evidence.kind == MEASURED then measured = measured + 1 elseif evidence then frequency = frequency + 1 end
  end
  return measured, frequency
end

--- Whether all are CPU samples of the kernel, which may be called faster and slower.
function M.measured(kind, artifacts) return kind == CPU and kinds_of(artifacts) == #artifacts end

--- The verdict that the evidence of CPU samples forces, and why; nil when the rows decide.
---@param kind string
---@param artifacts SampleArtifact[]
---@param mode "trend"|"dispersion"|nil
---@return string? verdict, string? note
function M.evidence_verdict(kind, artifacts, mode)
  if kind ~= CPU then return nil end
  local measured, frequency = kinds_of(artifacts)
  if measured == #artifacts then return nil end
  if frequency == #artifacts then
    return mode == "dispersion" and "incomparable" or "inconclusive", "FrequencyEvidence: stack samples of the runtime tell how often "
      .. "threads stood somewhere, not what ran: shares that moved are shown, and no verdict follows from them."
  end
  return "incomparable", "MixedEvidence: the captures do not tell the same thing: some are measured on the CPU, some are not."
end

local SHORT_S <const> = 1

--- What a reader should know of two captures beside each other.
---@return string[]
function M.notes(kind, before, after)
  local notes = {}
  for _, side in ipairs { { "baseline", before }, { "current", after } } do
    if side[2].info.samples == 0 then
      notes[#notes + 1] = ("NoSamples: the %s capture has no samples."):format(side[1])
    elseif seconds(side[2]) < SHORT_S then
      notes[#notes + 1] = ("ShortWindow: the %s capture is %.2f s long."):format(side[1], seconds(side[2]))
    end
  end
  if kind == ALLOCATION then notes[#notes + 1] = "PerSecond: rows compare bytes a second, so windows of other lengths compare." end
  return notes
end

-- ---- several captures ---------------------------------------------------------------------------------------------------------------

local function share(artifact, n)
  return artifact.info.samples > 0 and numbers.round(100 * n / artifact.info.samples, 2) or nil
end

local function method_comparable(artifact)
  local keys, info = {}, artifact.info
  local measured = artifact.evidence and artifact.evidence.kind == MEASURED
  for _, row in ipairs(artifact.profile:top_methods { top = KEYS, rank_by = "exclusive" }) do
    if row.exclusive > 0 then keys[row.module .. "!" .. wire.name(row.method)] = numbers.round(percent(artifact, row), 4) end
  end
  return {
    metrics = {
      { name = "samplesPerSecond", unit = "1/s", value = info.samples / seconds(artifact) },
      { name = "threads", value = info.threads },
      { name = "runningPercent", unit = "%", value = measured and share(artifact, info.running) or nil },
      { name = "waitingPercent", unit = "%", value = share(artifact, info.waiting) },
      { name = "unknownPercent", unit = "%", value = share(artifact, info.unknown) },
    }, keys = keys,
  }
end

local function type_comparable(artifact)
  local keys, s = {}, seconds(artifact)
  for i, t in ipairs(artifact.types) do
    if i > KEYS then break end
    keys[wire.name(t.type)] = numbers.round(t.bytes / s, 1)
  end
  return {
    metrics = {
      { name = "bytesPerSecond", unit = "B/s", value = (artifact.info.bytes or 0) / s, worse = "up" },
      { name = "eventsPerSecond", unit = "1/s", value = artifact.info.samples / s },
    }, keys = keys,
  }
end

--- What a journey compares of one capture.
---@return Comparable
function M.comparable(kind, artifact)
  return kind == ALLOCATION and type_comparable(artifact) or method_comparable(artifact)
end

return M
