-- SPDX-License-Identifier: MIT
-- Follows the requests of a window: for the collector, and for whoever wants to know what hangs right now.
local artifacts = require("collectors.requests.artifact")
local bridge = require("collectors.diagnostic_source")
local collector = require("lunette.collector")
local counter_notes = require("collectors.counter_notes")
local declared = require("collectors.requests.program")
local measured = require("collectors.measured")
local probe = require("lunette.probe")

local DEFAULT_THRESHOLD_MS <const> = 1000

---@param ctx table
---@param source CollectorSource
---@param args { durationSeconds: integer, longRunningThresholdMs: number?, save_to: string? }
---@return RequestsArtifact?, table? err
return function(ctx, source, args)
  local window <close> = bridge.enter(source.process and source.process.pid, declared.LINES)
  local result, err = probe.run(ctx, declared.program, {
    process = source.process, path = source.path, duration_ms = args.durationSeconds * 1000, save_to = args.save_to,
    message = "Following requests", bridge = window,
  })
  if not result then return nil, err end
  result.notes = counter_notes.of(result)
  local empty = source.path and collector.empty_recording(source.path, result.window.summary)
  if empty then return nil, empty end
  local artifact = artifacts.new(result, measured.window(result, source), source, args.longRunningThresholdMs or DEFAULT_THRESHOLD_MS,
    window)
  measured.none_recorded(artifact.notes, source, artifact.started + result.stopped, "request",
    "the ASP.NET Core listener of DiagnosticSource, or Kestrel's events")
  return artifact
end
