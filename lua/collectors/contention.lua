-- SPDX-License-Identifier: MIT
-- contention: threads that wait for a lock (Monitor, Lock), paired by thread; by call site, by owner, and which owners made others wait.
local lazy = require("lunette.lazy")
local blame = lazy("collectors.contention.blame")
local collector = require("lunette.collector")
local contention_notes = lazy("collectors.contention.notes")
local measured = require("collectors.measured")
local probe = require("lunette.probe")
local program = lazy("collectors.contention.program")
local wire = lazy("collectors.contention.wire")

local function contended(row)
  return { start_ns = row.at, stop_ns = row.stop, thread = row.thread, lock = row.lock or 0, owner = row.owner, stack = row.stack }
end

-- Who held the locks that are followed, and those that some still wait for.
local function blame_of(result, source, end_ns)
  local list, sightings = {}, {}
  for _, row in ipairs(result.locks.followed.rows) do list[#list + 1] = contended(row) end
  for _, row in ipairs(result.locks.open_rows) do
    if row.flags == 0 then list[#list + 1] = contended(row) end
  end
  for _, c in ipairs(list) do
    sightings[#sightings + 1] = { at_ns = c.start_ns, thread = c.thread, stack = c.stack, lock = c.lock }
  end
  for _, row in ipairs(result.seen.rows) do sightings[#sightings + 1] = { at_ns = row.at, thread = row.thread, stack = row.stack } end
  local is_aot = source.process and source.process.digest.runtime == "NativeAot"
  return blame.of(list, sightings, { end_ns = end_ns, stacks = result.stacks, ids_are_threads = not is_aot }), is_aot
end

local function artifact_of(source, result)
  local window = measured.window(result, source)
  local end_ns = source.path and (result.window.summary.duration_ns or 0) or window.duration_ms * 1000000
  local by_lock, is_aot = blame_of(result, source, end_ns)
  local artifact = wire.artifact(result, by_lock, end_ns)
  for name, value in pairs(window) do artifact[name] = value end
  artifact.start_unix_ns = result.window.summary.start_unix_ns or window.started_unix_ms * 1000000
  artifact.is_aot = is_aot
  artifact.notes = contention_notes.of(result, artifact, source.path ~= nil)
  return artifact
end

return collector {
  kind = "contention", handle = "contention-snapshot", data_field = "contention", payload = "ContentionSnapshot",
  collect = function(ctx, source, args)
    local result, err = probe.run(ctx, program.new(), {
      process = source.process, path = source.path, duration_ms = args.durationSeconds * 1000, save_to = args.save_to,
      message = "Collecting lock contention",
    })
    if not result then return nil, err end
    local empty = source.path and collector.empty_recording(source.path, result.window.summary)
    if empty then return nil, empty end
    return artifact_of(source, result)
  end,
  inline = function(artifact, args) return wire.snapshot(artifact, args.depth ~= "Summary") end,
  summary = function(...) return wire.sentence(...) end,
}
