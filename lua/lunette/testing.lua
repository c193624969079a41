-- SPDX-License-Identifier: MIT
-- testing: what the specs of a site use, run by `lunette test`: rules, collectors, views, signals and playbooks on a recorded file or on
-- made-up readings. Everything is taken from the layers under test, as a server would (docs/triage.md has examples).
local captures = require("lunette.rules.captures")
local explain = require("lunette.rules.explain")
local fs = require("lunette.fs")
local generation = require("lunette.generation")
local index = require("lunette.rules.index")
local playbooks = require("lunette.playbooks")
local rules = require("lunette.rules")
local series = require("collectors.counters.series")
local text = require("lunette.text")
local triage = require("triage")

local M = {}

local RECORDINGS <const> = { "", "/recordings", "/specs" } -- folders of a layer where a recording is looked for

M.folder = nil -- the layer under test; set by lunette test

-- An error of the framework as one of the spec.
local function fail(err, level) error(type(err) == "table" and tostring(err.message or err) or tostring(err), (level or 1) + 1) end

--- The path of a recording of the layer: its name, or its path below the layer, or any path.
---@param name string
---@return string
function M.path(name)
  if name:sub(1, 1) == "/" then return name end
  for _, folder in ipairs(M.folder and RECORDINGS or {}) do
    local path = M.folder .. folder .. "/" .. name
    if fs.stat(path) then return path end
  end
  if fs.stat(name) then return name end
  error(("there is no recording %s; it is looked for in %s, its recordings/ and specs/"):format(name, M.folder or "this folder"), 2)
end

-- ---- captures -----------------------------------------------------------------------------------------------------------------------

---@class TestCapture
---@field artifact table    what views, signals and rules look at
---@field data table        what the answer of collect_events holds
---@field summary string
---@field signals table[]   what stood out
---@field hints table[]     what to call next
local TestCapture = {}
TestCapture.__index = TestCapture

--- The signal of this id, or nil when it is silent.
function TestCapture:signal(id)
  for _, signal in ipairs(self.signals) do
    if signal.signal == id then return signal end
  end
  return nil
end

--- The payload of a view.
---@param name string
---@param options table?   options of query_snapshot
---@return table
function TestCapture:view(name, options)
  local arguments = { handle = self.handle.id, view = name }
  for k, v in pairs(options or {}) do arguments[k] = v end
  local data, err = captures.call("query_snapshot", arguments)
  if data == nil then fail(err, 2) end
  if data.payload == nil then return data end
  return data.payload -- of a collection; the frame around it is the same for all
end

--- Collects from a recording, as collect_events(kind, traceFilePath) does.
---@param kind string
---@param recording string   see M.path
---@param arguments table?   more arguments of the call
---@return TestCapture
function M.collect(kind, recording, arguments)
  local capture, err = captures.of_recording(kind, M.path(recording), arguments)
  if not capture then fail(err, 2) end
  return setmetatable(capture, TestCapture)
end

--- What a signal says of an artifact that the spec made up: the signal, or nil when it is silent.
---@param id string
---@param artifact table
---@param kind string?   of the handle, when the signal looks at several
---@return table?
function M.signal(id, artifact, kind)
  local ids = {}
  for _, value in ipairs(index.generation():list("signals")) do
    if value.id == id then return value.of(artifact, nil, kind)[1] end
    ids[#ids + 1] = value.id
  end
  error(("there is no signal %s.%s"):format(id, text.did_you_mean(id, ids)), 2)
end

--- The payload of a view over an artifact that the spec made up.
---@param kind string       of the handle
---@param name string
---@param artifact table
---@param options table?
---@return table
function M.view(kind, name, artifact, options)
  local view = require("lunette.view")
  local entry = { id = "made-up", kind = kind, artifact = artifact, origin = "trace" }
  local payload, err = view.project(kind, name, entry, options or {}, captures.ctx())
  if payload == nil then fail(err, 2) end
  return payload
end

--- The text of a playbook with these arguments.
---@param name string
---@param arguments table<string, any>?
---@return string
function M.playbook(name, arguments)
  local unit = generation.current():find("playbooks/" .. name)
  if not unit then
    error(("there is no playbook %s.%s"):format(name, text.did_you_mean(name, text.keys(generation.current().prompts))), 2)
  end
  local given = {}
  for k, v in pairs(arguments or {}) do given[k] = tostring(v) end
  return playbooks.render(unit, given)
end

-- ---- rules --------------------------------------------------------------------------------------------------------------------------

local function series_of(values)
  local s = series.new()
  for _, value in ipairs(type(values) == "table" and values or { values }) do series.add(s, value) end
  return s
end

-- A counter window of made-up readings: "Provider/counter" = one number or the values of its intervals.
local function window_of(readings, options)
  local artifact = {
    process_id = options.process_id or 1, started_unix_ms = 0, duration_ms = 5000, interval_s = 1, counters = {}, meters = {}, notes = {},
    processor_count = options.processors or 2, provider_order = {}, origin = "trace",
  }
  for _, name in ipairs(text.keys(readings)) do
    local provider, counter = name:match("^([^/]+)/(.+)$")
    if not provider then error(("%q must be Provider/counter; a fact is given in options.facts"):format(name), 3) end
    table.insert(artifact.counters, {
      provider = provider, name = counter, display_name = counter, series = series_of(readings[name]), interval_s = 1,
      unit = options.units and options.units[name],
    })
  end
  for i, m in ipairs(options.meters or {}) do
    artifact.meters[i] = {
      meter = m.meter, instrument = m.instrument, tags = m.tags or {}, tags_text = "", histogram = m.histogram, rate = m.rate,
      unit = m.unit, values = series_of(m.values or {}),
    }
  end
  return artifact
end

---@class Judged
---@field result table      the TriageResult that a client would get
---@field hints table[]
---@field summary string
local Judged = {}
Judged.__index = Judged

local function named(list, name)
  for _, item in ipairs(list) do
    if item.name == name then return item end
  end
  return nil
end

--- The observed signal of a rule, or nil when it is silent.
function Judged:signal(name) return named(self.result.observedSignals, name) end

--- The hypothesis, or nil when it does not stand.
function Judged:hypothesis(name) return named(self.result.hypotheses, name) end

--- The indicator, when it is among the highest.
function Judged:indicator(name) return named(self.result.topIndicators, name) end

--- How a rule or hypothesis came out: state, value, threshold, distance, what is missing.
function Judged:explain(name)
  local report = self.report or explain.of(index.of(), self.window)
  self.report = report
  return named(report.rules, name) or named(report.hypotheses, name)
end

---@class JudgeOptions
---@field facts table<string, any>?      facts that are told rather than measured
---@field meters table[]?                instruments: { meter =, instrument =, tags =, histogram = { p95 = … }, rate =, values = }
---@field units table<string, string>?   units of counters
---@field processors integer?            of the target; 2
---@field captures table<string, table>? further artifacts by kind of handle, for rules that look at them

local function judged(artifact, others, facts)
  local result, window = triage.judged(artifact, artifact.process_id, others, facts)
  if window.faults[1] then error(("%s failed: %s"):format(window.faults[1].what, window.faults[1].message), 3) end
  return setmetatable({
    result = result, window = window, hints = triage.hints(result, artifact.process_id), summary = triage.sentence(result, artifact),
  }, Judged)
end

--- Judges by all rules of the layers: a recording, or made-up readings of counters ("Provider/counter" = a number or a list of numbers, one
--- for each interval). A rule whose function fails, fails the test.
---@param what string|table
---@param options JudgeOptions?
---@return Judged
function M.judge(what, options)
  options = options or {}
  if type(what) == "table" then return judged(window_of(what, options), options.captures, options.facts) end
  local source = { path = M.path(what) }
  local artifact, others = captures.all(source, triage.DEFAULT_SECONDS)
  if not artifact then fail(others, 2) end
  for kind, other in pairs(options.captures or {}) do others[kind] = other end
  return judged(artifact, others, options.facts)
end

--- What is wrong with the rules, hints and hypotheses of the layers, as text; empty when nothing is. And what may be.
---@return string[] problems, string[] doubts
function M.problems()
  local list, doubts = {}, {}
  for _, p in ipairs(index.of().problems) do
    local into = p.doubt and doubts or list
    into[#into + 1] = ("%s: %s"):format(p.file, p.message)
  end
  return list, doubts
end

M.plain = rules.plain
return M
