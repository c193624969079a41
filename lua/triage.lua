-- SPDX-License-Identifier: MIT
-- triage: one short counter window, judged by the rules of lua/rules/ and of the site: observed signals, hypotheses, indicators and an
-- assessment (contract v2). No threshold and no rule is here.
local counters = require("collectors.counters")
local facts = require("triage.facts")
local faults = require("lunette.faults")
local hinting = require("lunette.rules.hinting")
local index = require("lunette.rules.index")
local json = require("lunette.json")
local kinds = require("lunette.kinds")
local rules = require("lunette.rules")
local text = require("lunette.text")

local M = {}

M.MODEL_VERSION = 2
M.MAX_SERIES = 100
M.MAX_INDICATORS = 5
M.DEFAULT_SECONDS = 5
M.KIND = "triage" -- what hint rules for a triage give as their kind of handle
local SPOKEN_INDICATORS <const> = 3

local ORDER <const> = { __order = {
  "modelVersion", "assessment", "severity", "observedSignals", "hypotheses", "topIndicators", "evidence", "verdict", "secondaryVerdicts" } }

local function add_hint(list, seen, hint)
  local a = hint.suggestedArguments or {}
  local key = table.concat({ hint.nextTool, tostring(a.kind), tostring(a.view), tostring(a.source) }, "\0")
  if seen[key] then return end
  seen[key] = true
  hint.priority = #list == 0 and "high" or "normal"
  list[#list + 1] = hint
end

local function next_of(set, name)
  for _, rule in ipairs(set.rules) do
    if rule.name == name and rule.next then return rule.next end
  end
  return nil
end

--- What to do next: the steps of the hypotheses, then those of the signals, then those of the hint rules for a triage.
---@param result table   TriageResult
---@param process_id integer?
function M.hints(result, process_id)
  local set, list, seen = index.of(), {}, {}
  for _, h in ipairs(result.hypotheses) do
    local step = h.nextStep
    add_hint(list, seen, setmetatable({
      nextTool = step.nextTool, reason = step.reason, suggestedArguments = step.suggestedArguments,
    }, getmetatable(step)))
  end
  for _, signal in ipairs(result.observedSignals) do
    local step = next_of(set, signal.name)
    if step then add_hint(list, seen, rules.hint(step, process_id)) end
  end
  for _, hint in ipairs(hinting.of(set, M.KIND, { artifact = result, process_id = process_id })) do add_hint(list, seen, hint) end
  return list
end

local function has(list, value)
  for _, item in ipairs(list) do
    if item == value then return true end
  end
  return false
end

--- What a triage asks of its counter window, beside its length: options of collectors.counters. The providers of the rules come on top of
--- the usual ones.
---@return { meters: string[], implicit_meters: boolean, max_series: integer, providers: string[]?, implicit_providers: boolean? }
function M.options()
  local asks = index.of().asks
  local options = { meters = text.keys(asks.meters), implicit_meters = true, max_series = M.MAX_SERIES }
  for _, provider in ipairs(text.keys(asks.providers)) do
    if not has(options.providers or counters.DEFAULT_PROVIDERS, provider) then
      options.providers = options.providers or { table.unpack(counters.DEFAULT_PROVIDERS) }
      options.providers[#options.providers + 1] = provider
      options.implicit_providers = true
    end
  end
  return options
end

-- Captures by the kind of their handle; `others` may also name them by the kind of collect_events.
local function sources_of(artifact, others)
  local sources = { counters = artifact }
  if not others then return sources end
  local handle_of = {}
  for _, name in ipairs(kinds.names()) do
    local made_by = kinds.get(name).collector
    if made_by and made_by.tool == "collect_events" and made_by.arguments then handle_of[made_by.arguments.kind or name] = name end
  end
  for name, other in pairs(others) do sources[handle_of[name] or name] = other end
  return sources
end

--- Judges a window, with all that was seen on the way.
---@param artifact CounterArtifact
---@param process_id integer?
---@param others table<string, table>?
---@param given table<string, any>?   facts that are told rather than measured
---@return table TriageResult, RuleWindow
function M.judged(artifact, process_id, others, given)
  local set = index.of()
  local window = rules.window(set, sources_of(artifact, others), given)
  local observed = rules.observe(set, window)
  local hypotheses = rules.weigh(set, window, process_id)
  local row = rules.assess(set, window, observed, hypotheses)
  local word, secondary, severity = rules.project(set, window, row)
  faults.of_window(window)
  return setmetatable({
    modelVersion = M.MODEL_VERSION, assessment = row.word, severity = severity, observedSignals = json.array(observed),
    hypotheses = json.array(hypotheses), topIndicators = rules.rank(set, window, M.MAX_INDICATORS), evidence = facts.evidence(window),
    verdict = word, secondaryVerdicts = json.array(secondary),
  }, ORDER), window
end

--- Judges a counter window, and what other captures of the same time saw. Pure.
---@param artifact CounterArtifact
---@param process_id integer?   for the next steps; nil for a recording
---@param others table<string, table>?   further artifacts by kind of handle (or kind of collect_events), for rules that look at them
---@return table TriageResult
function M.judge(artifact, process_id, others) return (M.judged(artifact, process_id, others)) end

--- The one-line summary: the assessment, what stands behind it, and the three highest indicators.
---@param result table
---@param artifact CounterArtifact
function M.sentence(result, artifact)
  local said = {}
  for i = 1, math.min(SPOKEN_INDICATORS, #result.topIndicators) do
    local t = result.topIndicators[i]
    said[i] = ("%s %s %s (%s)"):format(t.name, rules.plain(t.value), t.unit or "", t.level)
  end
  local why = result.hypotheses[1] and result.hypotheses[1].name or result.observedSignals[1] and result.observedSignals[1].name
  local line = ("Process %d: %s%s. %s."):format(artifact.process_id, result.assessment, why and " (" .. why .. ")" or "",
    table.concat(said, ", "))
  if #said == 0 then line = ("Process %d: %s, no counter of the runtime came."):format(artifact.process_id, result.assessment) end
  if #artifact.notes > 0 then line = line .. " " .. table.concat(artifact.notes, " ") end
  return line
end

--- inspect_process(view="triage").
---@param ctx table
---@param args { durationSeconds: integer? }
---@param process table    from lunette.process
---@return table? data, table extras_or_err
function M.run(ctx, args, process)
  local options = M.options()
  options.interval_s, options.duration_s = 1, args.durationSeconds or M.DEFAULT_SECONDS
  local artifact, err = counters.collect(ctx, { process = process }, options)
  if not artifact then return nil, err end
  local result = M.judge(artifact, process.pid)
  return result, { summary = M.sentence(result, artifact), hints = M.hints(result, process.pid), process = process }
end

return M
