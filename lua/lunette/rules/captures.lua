-- SPDX-License-Identifier: MIT
-- What rules look at, from a process or a recording, outside a request: the counter window of a triage, and further ones of a recording.
local counters = require("collectors.counters")
local errors = require("lunette.errors")
local generation = require("lunette.generation")
local index = require("lunette.rules.index")
local input = require("lunette.rules.input")
local kinds = require("lunette.kinds")
local scopes = require("lunette.scopes")
local text = require("lunette.text")
local triage = require("triage")

local M = {}

--- The context of a caller at the terminal.
function M.ctx() return { principal = scopes.principal("cli", { "root" }), transport = "cli", progress = function() end, state = {} } end

--- The counter window that a triage judges.
---@param source { process: table } | { path: string }
---@param seconds integer
---@return CounterArtifact?, table? err
function M.counters(source, seconds)
  local options = triage.options()
  options.interval_s, options.duration_s = 1, seconds
  return counters.collect(M.ctx(), source, options)
end

---@class Capture
---@field artifact table     what the views, signals and rules look at
---@field handle table       entry of lunette.handles
---@field data table         what the answer of the call holds
---@field summary string
---@field signals table[]
---@field hints table[]

--- Does what a call of a tool would do, without an envelope around it.
---@param name string        of the tool
---@param arguments table
---@return table? data, table extras_or_err
function M.call(name, arguments)
  local tool = generation.current().tools[name]
  if not tool then return nil, errors.new("Internal", "there is no tool " .. name) end
  local ctx = M.ctx()
  local prepared, err = tool:prepare(ctx, arguments)
  if not prepared then return nil, err end
  return tool:perform(ctx, prepared)
end

--- Collects from a recording.
---@param kind string        a kind of collect_events
---@param path string
---@param arguments table?   more of them
---@return Capture?, table? err
function M.of_recording(kind, path, arguments)
  local all = { kind = kind, traceFilePath = path }
  for k, v in pairs(arguments or {}) do all[k] = v end
  local data, extras = M.call("collect_events", all)
  if data == nil then return nil, extras end
  return {
    artifact = extras.handle and extras.handle.artifact, handle = extras.handle, data = data, summary = extras.summary,
    signals = extras.signals or {}, hints = extras.hints or {},
  }
end

-- The kind of collect_events that makes captures of a kind of handle.
local function collector_of(handle)
  local kind = kinds.get(handle)
  local made_by = kind and kind.collector
  if not made_by or made_by.tool ~= "collect_events" then return nil end
  return made_by.arguments and made_by.arguments.kind or handle
end

local function other(handle, path)
  local kind = collector_of(handle)
  if not kind then return nil, ("no collector makes captures of this kind from a recording") end
  local capture, err = M.of_recording(kind, path)
  if not capture then return nil, tostring(err.message) end
  return capture.artifact
end

--- The captures that the rules look at beside counters. For a process none is made: each would be a window of its own.
---@param source { process: table? , path: string? }
---@return table<string, table>? others, string[] notes
function M.others(source)
  local others, notes = nil, {}
  for _, kind in ipairs(text.keys(index.of().handles)) do
    if kind ~= input.COUNTERS and kind ~= triage.KIND then
      local artifact, why = nil, "not captured of a process: rules that look at it were not judged. Give a recording."
      if source.path then artifact, why = other(kind, source.path) end
      if artifact then
        others = others or {}
        others[kind] = artifact
      else
        notes[#notes + 1] = ("%s: %s"):format(kind, why)
      end
    end
  end
  return others, notes
end

return M
