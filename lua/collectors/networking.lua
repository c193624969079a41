-- SPDX-License-Identifier: MIT
-- networking: outgoing requests, lookups, TLS handshakes and connects, from the networking EventSources; times of those whose start and
-- stop have one activity id, requests by scheme, host and port, and the sources' counters.
local lazy = require("lunette.lazy")
local artifacts = lazy("collectors.networking.artifact")
local collector = require("lunette.collector")
local measured = require("collectors.measured")
local notes = lazy("collectors.networking.notes")
local probe = require("lunette.probe")
local programs = lazy("collectors.networking.program")
local window = require("collectors.window")
local wire = lazy("collectors.networking.wire")

local function collect(ctx, source, args)
  local ok, err = window.settle(source.process) -- it asks for counters
  if not ok then return nil, err end
  local result
  result, err = probe.run(ctx, programs.new(args.intervalSeconds or 1), {
    process = source.process, path = source.path, duration_ms = args.durationSeconds * 1000, save_to = args.save_to,
    message = "Collecting networking events",
  })
  if not result then return nil, err end
  local empty = source.path and collector.empty_recording(source.path, result.window.summary)
  if empty then return nil, empty end
  local artifact = artifacts.new(result, measured.window(result, source))
  artifact.asked_ms = source.path and artifact.duration_ms or args.durationSeconds * 1000
  artifact.notes = notes.of(artifact, source)
  return artifact
end

return collector {
  kind = "networking", handle = "networking-snapshot", data_field = "networking", payload = "NetworkingSnapshot",
  risk = {
    level = "moderate", target_impact = "low", data_exposure = "metadata",
    reason = "Names of the hosts that the process talks to are read. Activity ids that flow with tasks stay on in the process afterwards.",
    side_effects = { "activity ids flow with tasks in the target, also after the window" },
  },
  collect = collect,
  inline = function(artifact, args) return wire.snapshot(artifact, args.depth ~= "Summary") end,
  summary = function(...) return wire.sentence(...) end,
}
