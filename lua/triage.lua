-- SPDX-License-Identifier: MIT
-- triage: one short counter window, turned into observed signals, hypotheses, indicators and an assessment (contract v2).
local counters = require("collectors.counters")
local facts_of = require("triage.facts")
local hints = require("lunette.hints")
local hypotheses = require("triage.hypotheses")
local indicators = require("triage.indicators")
local json = require("lunette.json")
local signals = require("triage.signals")
local verdict = require("triage.verdict")

local M = {}

M.MODEL_VERSION = 2
M.METERS = { "Microsoft.AspNetCore.Hosting" }
M.MAX_SERIES = 100
M.DEFAULT_SECONDS = 5
local WINDOW_S <const> = 10
local SPOKEN_INDICATORS <const> = 3

local ORDER <const> = { __order = {
  "modelVersion", "assessment", "severity", "observedSignals", "hypotheses", "topIndicators", "evidence", "verdict", "secondaryVerdicts" } }

-- Where to look for each signal that no hypothesis took up.
local NEXT_BY_SIGNAL <const> = {
  ["threadpool.queue"] = { "collect_thread_snapshot", nil, "A queue in one window is inconclusive: see what the threads do." },
  ["threadpool.starvation"] = {
    "collect_events", { kind = "threadpool", durationSeconds = WINDOW_S }, "See how the pool grows and what is queued.",
  },
  ["cpu.effective-core-consumption"] = {
    "collect_sample", { kind = "cpu", durationSeconds = WINDOW_S, topN = 25 }, "About one core is busy: see which methods run.",
  },
  ["cpu.usage"] = { "collect_sample", { kind = "cpu", durationSeconds = WINDOW_S, topN = 25 }, "See which methods run." },
  ["gc.time"] = { "collect_events", { kind = "gc", durationSeconds = WINDOW_S }, "See the collections and their pauses." },
  ["lock.contention"] = { "collect_events", { kind = "contention", durationSeconds = WINDOW_S }, "See which locks are waited for." },
  ["requests.p95"] = { "collect_events", { kind = "activities", durationSeconds = WINDOW_S }, "See where slow requests spend their time." },
  ["memory.intra-window-growth"] = {
    "inspect_process", { view = "memory_trend", durationSeconds = 30 }, "See whether it goes on growing.",
  },
  ["runtime.silent-interval"] = { "inspect_process", { view = "container" }, "See whether the process is throttled or stopped." },
}

-- What else the older verdicts lead to, and what a healthy process may be asked next.
local NEXT_BY_VERDICT <const> = {
  ["gc-pressure"] = { "inspect_heap", { source = "live" }, "See what the heap holds." },
  healthy = {
    "collect_events", { kind = "gc", durationSeconds = WINDOW_S }, "Nothing stands out in the counters: look at the collector next.",
  },
}

local function add_hint(list, seen, hint)
  local a = hint.suggestedArguments or {}
  local key = table.concat({ hint.nextTool, tostring(a.kind), tostring(a.view), tostring(a.source) }, "\0")
  if seen[key] then return end
  seen[key] = true
  hint.priority = #list == 0 and "high" or "normal"
  list[#list + 1] = hint
end

local function hint_of(step, process_id)
  local arguments = { processId = process_id }
  for k, v in pairs(step[2] or {}) do arguments[k] = v end
  return hints.new(step[1], step[3], arguments)
end

--- What to do next: the steps of the hypotheses, then those of the signals, then those of the verdict.
---@param result table   TriageResult
---@param process_id integer?
function M.hints(result, process_id)
  local list, seen = {}, {}
  for _, h in ipairs(result.hypotheses) do
    local step = h.nextStep
    add_hint(list, seen, hints.new(step.nextTool, step.reason, step.suggestedArguments))
  end
  for _, signal in ipairs(result.observedSignals) do
    local step = NEXT_BY_SIGNAL[signal.name]
    if step then add_hint(list, seen, hint_of(step, process_id)) end
  end
  local step = NEXT_BY_VERDICT[result.verdict]
  if step then add_hint(list, seen, hint_of(step, process_id)) end
  if #list == 0 then
    add_hint(list, seen, hint_of({ "inspect_process", { view = "preflight" }, "See why no counter came." }, process_id))
  end
  return list
end

--- What a triage asks of its counter window, beside its length: options of collectors.counters.
---@return table
function M.options() return { meters = M.METERS, implicit_meters = true, max_series = M.MAX_SERIES } end

--- Judges a counter window. Pure.
---@param artifact CounterArtifact
---@param process_id integer?   for the next steps; nil for a recording
---@return table TriageResult
function M.judge(artifact, process_id)
  local facts = facts_of.of(artifact)
  local observed, by_name = signals.observe(facts)
  local list = hypotheses.weigh(facts, by_name, signals.is_growth, process_id)
  local assessment = verdict.assess(facts, observed, list)
  local word, secondary, severity = verdict.project(facts, assessment)
  return setmetatable({
    modelVersion = M.MODEL_VERSION, assessment = assessment, severity = severity, observedSignals = json.array(observed),
    hypotheses = json.array(list), topIndicators = indicators.rank(facts), evidence = facts_of.evidence(facts), verdict = word,
    secondaryVerdicts = json.array(secondary),
  }, ORDER)
end

--- The one-line summary: the assessment, what stands behind it, and the three highest indicators.
---@param result table
---@param artifact CounterArtifact
function M.sentence(result, artifact)
  local said = {}
  for i = 1, math.min(SPOKEN_INDICATORS, #result.topIndicators) do
    local t = result.topIndicators[i]
    said[i] = ("%s %s %s (%s)"):format(t.name, signals.plain(t.value), t.unit, t.level)
  end
  local why = result.hypotheses[1] and result.hypotheses[1].name or result.observedSignals[1] and result.observedSignals[1].name
  local text = ("Process %d: %s%s. %s."):format(artifact.process_id, result.assessment, why and " (" .. why .. ")" or "",
    table.concat(said, ", "))
  if #said == 0 then text = ("Process %d: %s, no counter of the runtime came."):format(artifact.process_id, result.assessment) end
  if #artifact.notes > 0 then text = text .. " " .. table.concat(artifact.notes, " ") end
  return text
end

--- inspect_process(view="triage").
---@param ctx table
---@param args { durationSeconds: integer? }
---@param process table    from lunette.process
---@return table? data, table extras_or_err
function M.run(ctx, args, process)
  local artifact, err = counters.collect(ctx, { process = process }, {
    meters = M.METERS, implicit_meters = true, interval_s = 1, duration_s = args.durationSeconds or M.DEFAULT_SECONDS,
    max_series = M.MAX_SERIES,
  })
  if not artifact then return nil, err end
  local result = M.judge(artifact, process.pid)
  return result, { summary = M.sentence(result, artifact), hints = M.hints(result, process.pid), process = process }
end

return M
