-- SPDX-License-Identifier: MIT
-- crash-guard: watches a process for an exception that nobody handles. Ends early when the process does; keeps the last throws, and tells
-- what is known of the end: the exit, the exception in flight, and how whole the stream was.
local lazy = require("lunette.lazy")
local collector = require("lunette.collector")
local exit_watch = lazy("collectors.crash_guard.exit")
local in_flight = lazy("collectors.crash_guard.in_flight")
local probe = require("lunette.probe")
local rows = lazy("collectors.exceptions.rows")
local snapshot = lazy("collectors.crash_guard.snapshot")
local verdict = lazy("collectors.crash_guard.verdict")

local VERBOSE <const> = 5 -- loads of methods; from 4 on come the catch, finally and filter events around a throw
local MAX_THREADS <const> = 4096
local EVENTS <const> = {
  throw = rows.THROW, caught = rows.PROVIDER .. "/ExceptionCatch/Start", filter = rows.PROVIDER .. "/ExceptionFilter/Start",
  done = rows.PROVIDER .. "/Exception/Stop",
}

local function program(kept)
  return probe.program {
    name = "crash-guard",
    -- what is loaded in the window is named by its own events: there may be no rundown at the end
    providers = { { name = rows.PROVIDER, keywords = { "Exception", "Jit", "NGen", "Loader", "CompilationDiagnostic" }, level = VERBOSE } },
    events = EVENTS,
    keep = {
      total = probe.count { on = "throw" },
      caught = probe.count { on = "caught" },
      by_type = rows.by_type("throw"),
      sites = rows.sites("throw"),
      recent = probe.last(kept, rows.columns(), { on = "throw" }),
      threads = probe.group {
        by = "@thread", max = MAX_THREADS, top = MAX_THREADS,
        keep = { tail = probe.last(in_flight.PER_THREAD, in_flight.columns()) },
      },
    },
  }
end

--- NativeAOT has no events around handlers; a recording tells of them when it holds one.
local function handlers_told(source, result)
  if result.caught > 0 then return true end
  return source.process ~= nil and source.process.digest.runtime ~= "NativeAot"
end

local function evidence(source, watch, result)
  local over = result.window.ended == "stream-end"
  local ended, exit = false, nil
  if source.process then ended, exit = exit_watch.look(source.process, watch, over) end
  return {
    live = source.process ~= nil, ended = ended, exit = exit, clean = result.window.summary.complete == true,
    handlers_told = handlers_told(source, result), in_flight = in_flight.of(result.threads.rows)[1],
    last = result.recent.rows[#result.recent.rows],
  }
end

local function collect(ctx, source, args)
  local watch <close> = source.process and exit_watch.watch(source.process) or nil
  local result, err = probe.run(ctx, program(rows.kept(args)), {
    process = source.process, path = source.path, duration_ms = args.durationSeconds * 1000, save_to = args.save_to, names = "early",
    message = "Guarding against a crash",
  })
  if not result then return nil, err end
  local empty = source.path and collector.empty_recording(source.path, result.window.summary)
  if empty then return nil, empty end
  return snapshot.artifact(source, result, verdict.of(evidence(source, watch, result)), args)
end

return collector {
  kind = "crash-guard", handle = "crash-guard-snapshot", risk = "moderate", data_field = "crashGuard", payload = "CrashGuardSnapshot",
  collect = collect,
  inline = function(artifact, args) return snapshot.wire(artifact, args.depth == "Summary") end,
  summary = function(...) return snapshot.sentence(...) end,
}
