-- SPDX-License-Identifier: MIT
-- wait-handles: threads that wait on a Mutex, Semaphore, event, Task, Thread or in Monitor.Wait (.NET 9 and later), paired by thread; by
-- source and call site, and in one ranking with the lock contention of the same session: where threads wait.
local lazy = require("lunette.lazy")
local collector = require("lunette.collector")
local errors = require("lunette.errors")
local frames = lazy("collectors.waits.frames")
local hints = require("lunette.hints")
local measured = require("collectors.measured")
local probe = require("lunette.probe")
local wait_notes = lazy("collectors.wait_handles.notes")
local wire = lazy("collectors.wait_handles.wire")

local RUNTIME <const> = probe.RUNTIME
local FIRST_MAJOR <const> = 9
local MAX_SITES <const> = 500
local MAX_STACKS <const> = 500
local PERCENTILES <const> = { 50, 95 }

local function times(ns) return { time = probe.quantiles(ns, PERCENTILES), total = probe.sum(ns), threads = probe.distinct("@thread") } end

local function sites(ns, by, skip)
  return probe.group { by = by, weight = ns, top = MAX_SITES, frames = { skip = skip, depth = 1 }, keep = times(ns) }
end

-- A lock that is contended waits on a handle, too: such a wait is told with its contention, and not again by itself.
local function program()
  return probe.program {
    name = "wait-handles",
    providers = { { name = RUNTIME, keywords = { "WaitHandle", "Contention" }, level = 5 } },
    events = {
      wait = RUNTIME .. "/WaitHandleWait/Start", woke = RUNTIME .. "/WaitHandleWait/Stop",
      enter = RUNTIME .. "/Contention/Start", left = RUNTIME .. "/Contention/Stop",
      runtime = { RUNTIME .. "/Runtime/Start", probe.RUNDOWN .. "/Runtime/Start" },
    },
    let = { ns = "@duration", lock_ns = "coalesce(DurationNs, @duration)" },
    keep = {
      locks = probe.pair {
        start = "enter", stop = "left", where = "start.ContentionFlags == 0",
        open = { at = "@time", thread = "@thread", stack = "@stack" },
        keep = { total = probe.sum("lock_ns"), by_site = sites("lock_ns", { stack = "start.@stack" }, frames.LOCKS) },
      },
      waits = probe.pair {
        start = "wait", stop = "woke", where = 'not within("locks")',
        open = { at = "@time", thread = "@thread", stack = "@stack", source = "WaitSource" },
        keep = {
          time = probe.quantiles("ns", PERCENTILES), total = probe.sum("ns"), threads = probe.distinct("@thread"),
          by_source = probe.group { by = { source = "start.WaitSource" }, keep = times("ns") },
          by_site = sites("ns", { stack = "start.@stack", source = "start.WaitSource" }, frames.skip()),
          by_stack = probe.group {
            by = { stack = "start.@stack" }, weight = "ns", top = MAX_STACKS, keep = { n = probe.count(), total = probe.sum("ns") },
          },
        },
      },
      major = probe.value("VMMajorVersion", { on = "runtime" }),
      inside = probe.pair { start = "wait", stop = "woke", where = 'within("locks")', keep = { total = probe.sum("ns") } },
    },
  }
end

--- The error for a runtime that does not tell of waits; nil when it may.
---@param version string?   as the runtime writes it: 8.0.11
---@param process_id integer?
local function too_old(version, process_id)
  local major = math.tointeger(tonumber((version or ""):match("^%d+")))
  if not major or major >= FIRST_MAJOR then return nil end
  local who = process_id and "Process " .. process_id or "The recorded program"
  return errors.new("UnsupportedRuntime", ("%s runs on .NET %s, which does not tell of waits on handles: .NET %d and later do. Lock "
    .. "contention works there: collect_events(kind=\"contention\")."):format(who, version, FIRST_MAJOR), {
    process_id = process_id, hints = {
      hints.new("collect_events", "See where threads wait for locks.", { kind = "contention", processId = process_id }, "high"),
      hints.new("collect_thread_snapshot", "See what the threads wait for now.", { processId = process_id }),
    },
  })
end

local function artifact_of(source, result)
  local window = measured.window(result, source)
  local end_ns = source.path and (result.window.summary.duration_ns or 0) or window.duration_ms * 1000000
  local artifact = wire.artifact(result, end_ns)
  for name, value in pairs(window) do artifact[name] = value end
  artifact.notes = wait_notes.of(result, artifact, source.path ~= nil)
  return artifact
end

return collector {
  kind = "wait-handles", handle = "wait-handles-snapshot", data_field = "waitHandles", payload = "WaitHandleSnapshot",
  collect = function(ctx, source, args)
    local process = source.process
    local unsupported = process and process.record and too_old(process.record.runtimeVersion, process.pid)
    if unsupported then return nil, unsupported end
    local result, err = probe.run(ctx, program(), {
      process = process, path = source.path, duration_ms = args.durationSeconds * 1000, save_to = args.save_to,
      message = "Collecting waits on handles",
    })
    if not result then return nil, err end
    unsupported = result.waits.pairs == 0 and result.major and too_old(tostring(result.major))
    if unsupported then return nil, unsupported end
    local empty = source.path and collector.empty_recording(source.path, result.window.summary)
    if empty then return nil, empty end
    return artifact_of(source, result)
  end,
  inline = function(artifact, args) return wire.snapshot(artifact, args.depth ~= "Summary") end,
  summary = function(...) return wire.sentence(...) end,
}
