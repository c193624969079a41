-- SPDX-License-Identifier: MIT
-- What rules look at, from a process or a recording, outside a request: the counter window of a triage, and further ones of a recording.
local counters = require("collectors.counters")
local errors = require("lunette.errors")
local generation = require("lunette.generation")
local index = require("lunette.rules.index")
local input = require("lunette.rules.input")
local kinds = require("lunette.kinds")
local loop = require("lunette.loop")
local scopes = require("lunette.scopes")
local text = require("lunette.text")
local triage = require("triage")

local M = {}

local HARMFUL <const> = { high = true, critical = true } -- what is not done to a process for the sake of a rule

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

-- A call of a tool, read and checked.
local function prepare(name, arguments)
  local tool = generation.current().tools[name]
  if not tool then return nil, errors.new("Internal", "there is no tool " .. name) end
  local ctx = M.ctx()
  local prepared, err = tool:prepare(ctx, arguments)
  if not prepared then return nil, err end
  return { run = function() return tool:perform(ctx, prepared) end, risk = prepared.call.safety.riskLevel }
end

--- Does what a call of a tool would do, without an envelope around it.
---@param name string        of the tool
---@param arguments table
---@return table? data, table extras_or_err
function M.call(name, arguments)
  local call, err = prepare(name, arguments)
  if not call then return nil, err end
  return call.run()
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

local COLLECTORS <const> = { collect_events = true, collect_sample = true }

-- The tool and its kind that make captures of a kind of handle.
local function collector_of(handle)
  local kind = kinds.get(handle)
  local made_by = kind and kind.collector
  if not made_by or not COLLECTORS[made_by.tool] then return nil end
  return made_by.tool, made_by.arguments and made_by.arguments.kind or handle
end

-- The artifact of a further kind of handle, from a process or a recording; or nil and why not.
local function other(handle, source, seconds)
  local tool, kind = collector_of(handle)
  if not tool then return nil, "no collector makes captures of this kind" end
  local arguments = { kind = kind, traceFilePath = source.path, processId = source.process and source.process.pid }
  arguments.durationSeconds = source.process and seconds or nil
  local call, err = prepare(tool, arguments)
  if not call then return nil, tostring(err.message) end
  if source.process and HARMFUL[call.risk] then return nil, "not captured: its risk is " .. call.risk end
  local data, extras = call.run()
  if data == nil then return nil, tostring(extras.message) end
  return extras.handle and extras.handle.artifact, "it left no capture"
end

-- The captures that the rules look at beside counters, each in a task of its own: kind of handle -> task.
local function begin_others(source, seconds)
  local tasks = {}
  for _, handle in ipairs(text.keys(index.of().handles)) do
    if handle ~= input.COUNTERS and handle ~= triage.KIND then
      tasks[#tasks + 1] = {
        handle = handle, task = loop.spawn(function()
          loop.set_budget(-1)
          return { other(handle, source, seconds) }
        end),
      }
    end
  end
  return tasks
end

--- All that the rules look at: the counter window of a triage, and beside it, at the same time, the captures that some rule names.
---@param source { process: table } | { path: string }
---@param seconds integer    of a process
---@return CounterArtifact? artifact, table<string, table>|table others_or_err, string[]? notes
function M.all(source, seconds)
  local tasks = begin_others(source, seconds)
  local artifact, err = M.counters(source, seconds)
  local others, notes = {}, {}
  for _, t in ipairs(tasks) do
    local got, failed = t.task:await()
    others[t.handle] = got and got[1]
    if not others[t.handle] then notes[#notes + 1] = ("%s: %s"):format(t.handle, got and got[2] or tostring(failed)) end
  end
  if not artifact then return nil, err end
  return artifact, others, notes
end

return M
