-- SPDX-License-Identifier: MIT
-- kestrel: what the web server did in a window: connections, requests by operation, TLS handshakes, queues, and its options.
local lazy = require("lunette.lazy")
local artifacts = lazy("collectors.kestrel.artifact")
local collector = require("lunette.collector")
local counter_notes = require("collectors.counter_notes")
local declared = lazy("collectors.kestrel.program")
local measured = require("collectors.measured")
local numbers = require("lunette.numbers")
local probe = require("lunette.probe")
local window = require("collectors.window")
local wire = lazy("collectors.kestrel.wire")

local function collect(ctx, source, args)
  local settled, err = window.settle(source.process)
  if not settled then return nil, err end
  local result
  result, err = probe.run(ctx, declared.new(args.intervalSeconds or 1), {
    process = source.process, path = source.path, duration_ms = args.durationSeconds * 1000, save_to = args.save_to,
    message = "Watching the web server",
  })
  if not result then return nil, err end
  result.notes = counter_notes.of(result)
  local empty = source.path and collector.empty_recording(source.path, result.window.summary)
  if empty then return nil, empty end
  local artifact = artifacts.new(result, measured.window(result, source), source)
  local n = artifact.connections.started + artifact.requests.started + artifact.requests.stopped + artifact.tls.started
  measured.none_recorded(artifact.notes, source, n + #artifact.counters, "event of Kestrel", declared.KESTREL)
  return artifact
end

local function sentence(artifact, source)
  local what = source.path and "the recording" or ("process %d"):format(artifact.process_id)
  local c, r, t = artifact.connections, artifact.requests, artifact.tls
  return ("%d connections, %d requests and %d TLS handshakes began in %s over %s%s%s."):format(c.started, r.started, t.started, what,
    numbers.span(artifact.duration_ms), r.time.p95 and (", p95 of a request %.1f ms"):format(r.time.p95) or "",
    t.failed > 0 and (", %d handshakes failed"):format(t.failed) or "")
end

return collector {
  kind = "kestrel", handle = "kestrel-snapshot", risk = "moderate", data_field = "kestrel", payload = "KestrelSnapshot", collect = collect,
  inline = function(artifact, args) return wire.snapshot(artifact, args.depth) end,
  summary = sentence,
}
