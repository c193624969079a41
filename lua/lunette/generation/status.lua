-- SPDX-License-Identifier: MIT
-- What of the layers is in use and what is broken: for the resource lunette://scripts, lunette doctor and lunette check.
local declare = require("lunette.declare")
local fs = require("lunette.fs")
local json = require("lunette.json")
local publish = require("lunette.generation.publish")
local site = require("lunette.site")

local M = {}

local ORDER <const> = { __order = { "path", "state", "effect", "reason", "files", "problems" } }

-- The lowest of the files is the product's: then the highest extends or replaces what is ours.
local function files_of(unit)
  local list = {}
  for i, file in ipairs(unit.files) do list[i] = file.layer.product and "(product)" or file.path end
  return json.array(list)
end

local function problem_of(p)
  return setmetatable({ file = p.file, line = p.line, field = p.path ~= "" and p.path or nil, message = p.message },
    { __order = { "file", "line", "field", "message" } })
end

--- A unit as it is told.
---@param unit GenerationUnit
function M.unit(unit)
  local problems, stopped = {}, unit.box and unit.box.disabled
  for i, p in ipairs(unit.problems) do problems[i] = problem_of(p) end
  return setmetatable({
    path = unit.id, state = stopped and "stopped" or unit.state, reason = stopped or unit.reason,
    effect = stopped and "it is not run any more until its file changes" or unit.state == "broken" and publish.serving(unit) or nil,
    files = files_of(unit), problems = #problems > 0 and json.array(problems) or nil,
  }, ORDER)
end

--- The whole: layers, and every unit that a layer above the product has a say in.
---@param g Generation
function M.of(g)
  local layers, scripts, ignored, counts = {}, {}, {}, { ok = 0, broken = 0, disabled = 0 }
  for _, layer in ipairs(g.layers or {}) do
    if not layer.product then
      layers[#layers + 1] = { folder = layer.dir, exists = fs.stat(layer.dir) ~= nil }
      for _, found in ipairs(site.strangers(layer)) do ignored[#ignored + 1] = { path = found.path, message = found.message } end
    end
  end
  for _, id in ipairs(g.order) do
    local unit = g.units[id]
    if unit.site or unit.state == "broken" then
      counts[unit.state] = counts[unit.state] + 1
      scripts[#scripts + 1] = M.unit(unit)
    end
  end
  return setmetatable({
    generation = g.number, layers = json.array(layers), loaded = counts.ok, broken = counts.broken, disabled = counts.disabled,
    reloads = g.reloads or 0, lastReloadMs = g.reload_ms, scripts = json.array(scripts),
    ignored = #ignored > 0 and json.array(ignored) or nil,
  }, { __order = { "generation", "layers", "loaded", "broken", "disabled", "reloads", "lastReloadMs", "scripts", "ignored" } })
end

--- The problems of a generation, one a line.
---@param g Generation
---@return string[]
function M.lines(g)
  local list = {}
  for i, p in ipairs(g.problems) do list[i] = declare.format(p) end
  return list
end

return M
