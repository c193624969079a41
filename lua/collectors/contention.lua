-- SPDX-License-Identifier: MIT
-- contention: threads that wait for a lock (Monitor, Lock), paired by thread; by call site, by owner, and which owners made others wait.
local blame = require("collectors.contention.blame")
local by_site = require("signals.contention_by_call_site")
local collector = require("lunette.collector")
local contention_hints = require("collectors.contention.hints")
local contention_notes = require("collectors.contention.notes")
local frames = require("collectors.waits.frames")
local measured = require("collectors.measured")
local probe = require("lunette.probe")
local wire = require("collectors.contention.wire")

local RUNTIME <const> = probe.RUNTIME
local MAX_EVENTS <const> = 1000    -- single contentions kept, the longest
local MAX_FOLLOWED <const> = 10000 -- the last ones, whose owners are followed
local MAX_SEEN <const> = 10000     -- the last events that tell where owners were
local MAX_LOCKS <const> = 200
local MAX_SITES <const> = 500
local MAX_OWNERS <const> = 500
local WAIT_SITES <const> = 3       -- of one lock

local FIGURES <const> = { n = probe.count(), total = probe.sum("ns"), max = probe.max("ns") }

local function figures(more)
  local keep = { n = FIGURES.n, total = FIGURES.total, max = FIGURES.max }
  for name, reducer in pairs(more) do keep[name] = reducer end
  return keep
end

local function sites(top, keep)
  return probe.group { by = { stack = "start.@stack" }, weight = "ns", top = top, frames = { skip = frames.LOCKS, depth = 1 }, keep = keep }
end

local LOCKS_SEEN <const> = probe.distinct("start.LockID", { where = "start.LockID != 0" })

-- The waits on handles (.NET 9 and later) and the throws (keyword Monitoring brings these alone) are here to tell where owners are.
local function program()
  return probe.program {
    name = "contention",
    providers = { { name = RUNTIME, keywords = { "Contention", "WaitHandle", "Monitoring" }, level = 5 } },
    events = {
      start = RUNTIME .. "/Contention/Start", stop = RUNTIME .. "/Contention/Stop",
      wait = RUNTIME .. "/WaitHandleWait/Start", throw = RUNTIME .. "/Exception/Start",
    },
    let = { ns = "coalesce(DurationNs, @duration)" },
    keep = {
      locks = probe.pair {
        start = "start", stop = "stop", where = "start.ContentionFlags == 0",
        open = {
          at = "@time", thread = "@thread", owner = "LockOwnerThreadID", lock = "LockID", stack = "@stack", flags = "ContentionFlags",
        },
        keep = {
          time = probe.quantiles("ns", { 50, 95 }), total = probe.sum("ns"), monitors = LOCKS_SEEN,
          by_site = sites(MAX_SITES, figures { monitors = LOCKS_SEEN, owners = probe.distinct("start.LockOwnerThreadID") }),
          by_owner = probe.group {
            by = { owner = "start.LockOwnerThreadID" }, weight = "ns", top = MAX_OWNERS, keep = figures { monitors = LOCKS_SEEN },
          },
          by_lock = probe.group {
            by = { lock = "start.LockID" }, weight = "ns", top = MAX_LOCKS,
            keep = figures {
              object = probe.value("start.AssociatedObjectID"), threads = probe.distinct("@thread"),
              sites = sites(WAIT_SITES, { n = FIGURES.n, total = FIGURES.total }),
            },
          },
          longest = probe.top(MAX_EVENTS, "ns", {
            at = "start.@time", stop = "@time", ns = "ns", thread = "@thread", owner = "start.LockOwnerThreadID", lock = "start.LockID",
            object = "start.AssociatedObjectID", stack = "start.@stack",
          }),
          followed = probe.last(MAX_FOLLOWED, {
            at = "start.@time", stop = "@time", thread = "@thread", owner = "start.LockOwnerThreadID", lock = "start.LockID",
            stack = "start.@stack",
          }),
        },
      },
      seen = probe.last(MAX_SEEN, { at = "@time", thread = "@thread", stack = "@stack" },
        { on = { "wait", "throw" }, where = 'not within("locks")' }),
    },
  }
end

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
  artifact.notes = contention_notes.of(result, artifact)
  return artifact
end

return collector {
  kind = "contention", handle = "contention-snapshot", data_field = "contention", payload = "ContentionSnapshot",
  collect = function(ctx, source, args)
    local result, err = probe.run(ctx, program(), {
      process = source.process, path = source.path, duration_ms = args.durationSeconds * 1000, message = "Collecting lock contention",
    })
    if not result then return nil, err end
    local empty = source.path and collector.empty_recording(source.path, result.window.summary)
    if empty then return nil, empty end
    return artifact_of(source, result)
  end,
  inline = function(artifact, args) return wire.snapshot(artifact, args.depth ~= "Summary") end,
  summary = wire.sentence,
  signals = function(artifact, handle_id) return by_site.of(artifact, handle_id) end,
  hints = contention_hints.of,
}
