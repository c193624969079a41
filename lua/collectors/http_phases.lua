-- SPDX-License-Identifier: MIT
-- http-phases: every outgoing request of HttpClient with its phases and the waits between them: queue, lookup, connect, TLS, headers,
-- content; redirects with the cost of both legs, failures with their phase; the slowest, by host, by phase.
local lazy = require("lunette.lazy")
local artifacts = lazy("collectors.http_phases.artifact")
local assemble = lazy("collectors.http_phases.assemble")
local collector = require("lunette.collector")
local measured = require("collectors.measured")
local notes = lazy("collectors.http_phases.notes")
local probe = require("lunette.probe")
local programs = lazy("collectors.http_phases.program")
local tally = lazy("collectors.http_phases.tally")
local wire = lazy("collectors.http_phases.wire")

local function rows_dropped(result)
  local n = 0
  for kind in pairs(programs.KINDS) do n = n + (result[kind].dropped or 0) end
  return n
end

local function collect(ctx, source, args)
  local sums = tally.new()
  local assembly = assemble.new(function(request) sums:add(request) end)
  local result, err = probe.run(ctx, programs.new(function(kind, row) assembly:add(kind, row) end), {
    process = source.process, path = source.path, duration_ms = args.durationSeconds * 1000, save_to = args.save_to,
    message = "Collecting outgoing requests",
  })
  if not result then return nil, err end
  local empty = source.path and collector.empty_recording(source.path, result.window.summary)
  if empty then return nil, empty end
  local window = measured.window(result, source)
  local artifact = artifacts.new(assembly, sums, window.duration_ms * 1000000)
  for name, value in pairs(window) do artifact[name] = value end
  artifact.rows_dropped = rows_dropped(result)
  artifact.notes = notes.of(artifact, source)
  return artifact
end

return collector {
  kind = "http-phases", handle = "http-phases-snapshot", data_field = "httpPhases", payload = "HttpPhasesSnapshot",
  risk = {
    level = "moderate", target_impact = "low", data_exposure = "metadata",
    reason = "Hosts and paths of requests are read; values of queries and what looks like a secret are not kept. Activity ids that flow "
      .. "with tasks stay on in the process afterwards.",
    side_effects = { "activity ids flow with tasks in the target, also after the window" },
  },
  collect = collect,
  inline = function(artifact, args) return wire.snapshot(artifact, args.depth ~= "Summary") end,
  summary = function(...) return wire.sentence(...) end,
}
