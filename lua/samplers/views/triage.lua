-- SPDX-License-Identifier: MIT
-- triage: leaders, waits and the end of the hot path in one small answer.
local event_names = require("collectors.event_names")
local hints = require("lunette.hints")
local json = require("lunette.json")
local leaders = require("samplers.leaders")
local numbers = require("lunette.numbers")
local sys = require("lunette.sys")
local wire = require("samplers.wire")

local M = {}

local MAX_FILTER <const> = 1000 -- bytes of a name in a hint; the beginning of one finds it

M.ROWS, M.MAX_ROWS, M.THRESHOLD = 5, 100, 50
local MEASURED <const> = "OsOnCpuSamples"
local ORDER <const> = { __order = {
  "verdict", "evidence", "selfSamples", "topBusyMethods", "waitCategories", "hotPathLeaf", "hotPathDepth",
} }
local WAIT_ORDER <const> = { __order = { "waitReason", "exclusiveSamples", "percent" } }

--- CpuWaitCategory[].
---@param artifact SampleArtifact
---@param waits { reason: string, samples: integer }[]
---@param top integer
function M.wait_rows(artifact, waits, top)
  local rows = json.array({})
  for i = 1, math.min(top, #waits) do
    rows[i] = setmetatable({
      waitReason = waits[i].reason, exclusiveSamples = waits[i].samples, percent = wire.percent(artifact, waits[i].samples),
    }, WAIT_ORDER)
  end
  return rows
end

local function verdict_of(artifact)
  local measured = artifact.evidence ~= nil and artifact.evidence.kind == MEASURED
  return measured and artifact.info.samples > 0 and "on-cpu-observed" or "unclassified"
end

-- What the evidence is called, and what leads by it.
local function words_of(artifact)
  local evidence = artifact.evidence
  if not evidence then return "Unclassified: these are no CPU samples.", "Leader:" end
  if evidence.kind == MEASURED then return "On-CPU samples.", "Leader:" end
  return "Unclassified: these samples do not tell running from waiting.", "Beside known waits most often seen:"
end

local function sentence(artifact, rows, waits, leaf)
  local what, leading = words_of(artifact)
  local said = { what }
  if rows[1] then
    said[#said + 1] = ("%s %s (%.1f %%)."):format(leading, event_names.spoken(rows[1].method),
      100 * leaders.busy(rows[1]) / math.max(1, artifact.info.samples))
  end
  if waits[1] then
    said[#said + 1] = ("Most frequent known wait: %s (%s %%)."):format(waits[1].waitReason, numbers.round(waits[1].percent, 1))
  end
  if leaf then said[#said + 1] = ("The hot path ends at %s."):format(event_names.spoken(leaf.method)) end
  return table.concat(said, " ")
end

local function next_step(entry, rows)
  local id = entry.id
  if not rows[1] then
    return hints.new("query_snapshot", "See the tree: no method leads.", { handle = id, view = "call-tree" }, "high")
  end
  return hints.new("query_snapshot", "See who calls the leader, and what it calls.",
    { handle = id, view = "caller-callee", rootMethodFilter = sys.utf8_cut(rows[1].module .. "!" .. rows[1].method, MAX_FILTER) }, "high")
end

--- What the view answers.
function M.project(artifact, opts, entry)
  local top = math.min(opts.topN or M.ROWS, M.MAX_ROWS)
  local rows, waits = leaders.of(artifact, top)
  local path = artifact.profile:hot_path { threshold = opts.hotPathThresholdPercent or M.THRESHOLD }
  local leaf, verdict = path[#path], verdict_of(artifact)
  local wait_rows = M.wait_rows(artifact, waits, top)
  return setmetatable({
    verdict = verdict, evidence = wire.evidence(artifact), selfSamples = wire.split(artifact.info),
    topBusyMethods = wire.methods(artifact, rows), waitCategories = wait_rows, hotPathLeaf = leaf and wire.method(artifact, leaf) or nil,
    hotPathDepth = leaf and #path or nil,
  }, ORDER), { summary = sentence(artifact, rows, wait_rows, leaf), hints = { next_step(entry, rows) } }
end

return M
