-- SPDX-License-Identifier: MIT
-- What rules look at, from a process or a recording, outside a request: the counter window of a triage, and further ones of a recording.
local counters = require("collectors.counters")
local index = require("lunette.rules.index")
local input = require("lunette.rules.input")
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

--- The artifact of another kind of handle, collected from a recording.
---@param kind string    of the handle
---@param path string
---@return table? artifact, table? err
function M.of_recording(kind, path)
  local branch = require("lunette.collector").of_handle(kind)
  if not branch then return nil, { message = ("no collector makes %s captures of a recording"):format(kind) } end
  return branch.capture(M.ctx(), { path = path }, { durationSeconds = 1, traceFilePath = path, depth = "Summary" })
end

--- The captures that the rules look at beside counters. For a process none is made: each would be a window of its own.
---@param source { process: table? , path: string? }
---@return table<string, table>? others, string[] notes
function M.others(source)
  local others, notes = nil, {}
  for _, kind in ipairs(text.keys(index.of().handles)) do
    if kind ~= input.COUNTERS and kind ~= triage.KIND then
      local artifact, err
      if source.path then artifact, err = M.of_recording(kind, source.path) end
      if artifact then
        others = others or {}
        others[kind] = artifact
      else
        notes[#notes + 1] = ("%s: %s"):format(kind, err and tostring(err.message)
          or "not captured; rules that look at it were not judged (a recording, or the view sweep, has it)")
      end
    end
  end
  return others, notes
end

return M
