-- SPDX-License-Identifier: MIT
-- db: the database commands of a window, by statement without its values: how often, how long, repeated under one parent, and the pools.
local lazy = require("lunette.lazy")
local artifacts = lazy("collectors.db.artifact")
local bridge = require("collectors.diagnostic_source")
local collector = require("lunette.collector")
local counter_notes = require("collectors.counter_notes")
local declared = lazy("collectors.db.program")
local measured = require("collectors.measured")
local numbers = require("lunette.numbers")
local probe = require("lunette.probe")
local window = require("collectors.window")
local wire = lazy("collectors.db.wire")

local function collect(ctx, source, args)
  local settled, err = window.settle(source.process)
  if not settled then return nil, err end
  local open <close> = bridge.enter(source.process and source.process.pid, declared.LINES)
  local result
  result, err = probe.run(ctx, declared.new(args.intervalSeconds or 1), {
    process = source.process, path = source.path, duration_ms = args.durationSeconds * 1000, save_to = args.save_to,
    message = "Collecting database commands", bridge = open,
  })
  if not result then return nil, err end
  result.notes = counter_notes.of(result)
  local empty = source.path and collector.empty_recording(source.path, result.window.summary)
  if empty then return nil, empty end
  local artifact = artifacts.new(result, measured.window(result, source), source, open)
  measured.none_recorded(artifact.notes, source, artifact.total, "database command",
    "the listeners of EF Core or SqlClient, or the event source of SqlClient (0x1)")
  return artifact
end

return collector {
  kind = "db", handle = "db-snapshot", risk = "moderate", data_field = "db", payload = "DbSnapshot", collect = collect,
  inline = function(artifact, args) return wire.snapshot(artifact, args.depth) end,
  summary = function(artifact, source)
    local what = source.path and "the recording" or ("process %d"):format(artifact.process_id)
    return ("%d commands of %d statements in %s over %s, %d repeated more than 10 times under one parent%s."):format(artifact.total,
      #artifact.commands, what, numbers.span(artifact.duration_ms), #artifact.incidents,
      artifact.failed > 0 and (", %d failed"):format(artifact.failed) or "")
  end,
}
