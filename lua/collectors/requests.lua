-- SPDX-License-Identifier: MIT
-- requests: the ASP.NET Core requests that began in a window and had not ended when it closed, oldest first.
local lazy = require("lunette.lazy")
local artifacts = lazy("collectors.requests.artifact")
local bridge = require("collectors.diagnostic_source")
local collector = require("lunette.collector")
local counter_notes = require("collectors.counter_notes")
local declared = lazy("collectors.requests.program")
local measured = require("collectors.measured")
local probe = require("lunette.probe")
local wire = lazy("collectors.requests.wire")

local SUMMARY_ROWS <const> = 10
local DEFAULT_ROWS <const> = 100
local DEFAULT_THRESHOLD_MS <const> = 1000

local function collect(ctx, source, args)
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

return collector {
  kind = "requests", handle = "in-flight-requests", risk = "moderate", data_field = "requests", payload = "InFlightRequestSnapshot",
  collect = collect,
  inline = function(artifact, args)
    local limit = args.maxRequests or DEFAULT_ROWS
    return wire.snapshot(artifact, args.depth == "Summary" and math.min(limit, SUMMARY_ROWS) or limit)
  end,
  summary = function(artifact, source)
    local what = source.path and "the recording" or ("process %d"):format(artifact.process_id)
    return ("%d requests in flight in %s after %.1f s, %d of them for longer than %.0f ms%s."):format(artifact.in_flight, what,
      artifact.duration_ms / 1000, artifact.long_running, artifact.threshold_ms,
      artifact.oldest_ms and (", the oldest for %.1f s"):format(artifact.oldest_ms / 1000) or "")
  end,
}
