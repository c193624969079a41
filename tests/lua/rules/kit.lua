-- SPDX-License-Identifier: MIT
-- For the specs of rules: a set compiled from tables, and windows of made-up readings of any provider.
local compile = require("lunette.rules.compile")
local hinting = require("lunette.rules.hinting")
local rules = require("lunette.rules")
local series = require("collectors.counters.series")

local M = {}

--- A set of rules from tables, as they stand in files.
function M.set(...)
  local files = {}
  for i, value in ipairs { ... } do
    files[i] = { name = value.name or "rule" .. i, value = value, file = ("/site/rules/%s.lua:1"):format(value.name or i), layer = "/site" }
  end
  return compile.compile(files)
end

--- A set with hint rules beside rules.
function M.hints(hint_rules, ...)
  local set = M.set(...)
  local files = {}
  for i, value in ipairs(hint_rules) do files[i] = { name = "hints" .. i, value = value, file = "/site/hints/h.lua:1", layer = "/site" } end
  hinting.compile(set, files)
  return set
end

local function series_of(values)
  local s = series.new()
  for _, v in ipairs(type(values) == "table" and values or { values }) do series.add(s, v) end
  return s
end

--- A counter artifact: readings by "Provider/name", instruments as { meter, instrument, tags =, histogram =, values = }.
function M.counters(readings, meters)
  local artifact = { counters = {}, meters = {}, notes = {}, process_id = 42, processor_count = 2 }
  for name, values in pairs(readings or {}) do
    local provider, counter = name:match("^([^/]+)/(.+)$")
    table.insert(artifact.counters, { provider = provider, name = counter, series = series_of(values), interval_s = 1 })
  end
  for i, m in ipairs(meters or {}) do
    artifact.meters[i] = {
      meter = m.meter, instrument = m.instrument, tags = m.tags or {}, histogram = m.histogram, rate = m.rate,
      values = series_of(m.values or {}),
    }
  end
  return artifact
end

--- Judges readings: observed signals, hypotheses, and the window.
function M.judge(set, readings, meters, others)
  local sources = { counters = M.counters(readings, meters) }
  for kind, artifact in pairs(others or {}) do sources[kind] = artifact end
  local window = rules.window(set, sources)
  local observed = rules.observe(set, window)
  return observed, rules.weigh(set, window, 42), window
end

--- An observed signal or hypothesis by its name.
function M.named(list, name)
  for _, item in ipairs(list) do
    if item.name == name then return item end
  end
  return nil
end

return M
