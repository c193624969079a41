-- SPDX-License-Identifier: MIT
-- gc: collections, and independently of them the suspensions of the program for GC, over one window (GC measurement v2).
local lazy = require("lunette.lazy")
local collector = require("lunette.collector")
local errors = require("lunette.errors")
local induce = lazy("collectors.gc.induce")
local measured = require("collectors.measured")
local probe = require("lunette.probe")
local snapshot = lazy("collectors.gc.snapshot")
local streams = lazy("collectors.gc.streams")

local RUNTIME <const> = probe.RUNTIME
local MAX_ROWS <const> = 200
local QUEUE <const> = 200000 -- marks that may wait for us; a collection makes seven

local HEAP <const> = {
  at = "@time", gen0 = "GenerationSize0", gen1 = "GenerationSize1", gen2 = "GenerationSize2", loh = "GenerationSize3",
  poh = "GenerationSize4", survivors = "FinalizationPromotedCount", pinned = "PinnedObjectCount", handles = "GCHandleCount",
  promoted = "TotalPromotedSize0 + TotalPromotedSize1 + TotalPromotedSize2 + TotalPromotedSize3 + coalesce(TotalPromotedSize4, 0)",
}

local WHOLE <const> = { on = "heap", where = "GCHandleCount != null" } -- the last field that all versions have

--- The declaration. Pairs have up to four marks on two threads here, so they are made in Lua: some ten rows a collection.
local function program(pairing, max_rows)
  local function each(on, more)
    local row = { id = "@id", at = "@time", thread = "@thread", clr = "ClrInstanceID" }
    for name, expression in pairs(more or {}) do row[name] = expression end
    return probe.each(function(mark) pairing:add(mark) end, row, { on = on })
  end
  return probe.program {
    name = "gc",
    providers = { { name = RUNTIME, keywords = "GC", level = 4 } },
    events = {
      start = RUNTIME .. "/GC/Start", stop = RUNTIME .. "/GC/Stop", begin = RUNTIME .. "/GC/SuspendEEStart",
      phase = { RUNTIME .. "/GC/SuspendEEStop", RUNTIME .. "/GC/RestartEEStart", RUNTIME .. "/GC/RestartEEStop" },
      triggered = RUNTIME .. "/GC/Triggered", heap = RUNTIME .. "/GC/HeapStats",
    },
    keep = {
      starts = each("start", { count = "Count", depth = "Depth", reason = "Reason", type = "Type" }),
      stops = each("stop", { count = "Count" }),
      begins = each("begin", { reason = "Reason", count = "Count" }),
      phases = each("phase"),
      triggers = each("triggered", { reason = "Reason", unix_ns = "@unix" }),
      heap = probe.first(max_rows, HEAP, WHOLE),
      last_heap = probe.last(1, HEAP, WHOLE),
    },
  }
end

local MARKS <const> = { "starts", "stops", "begins", "phases", "triggers" }

local function dropped_marks(result)
  local n = 0
  for _, name in ipairs(MARKS) do n = n + result[name].dropped end
  return n
end

-- Whether a window that was to last as long as its program saw the program end in good order: then nothing is missing at its end.
local function whole_run(ctx, source, window)
  return (ctx.state or {}).as_long_as_program and not source.path and window.ended == "stream-end" and window.summary.complete ~= false
end

local function artifact_of(ctx, source, args, result, pairing, induction)
  local window, notes = result.window, result.notes
  local summary = window.summary
  local whole = whole_run(ctx, source, window)
  if whole then notes[#notes + 1] = "ProgramEnded: the program ended by itself: these are the collections of its whole run." end
  pairing:finish {
    lost = summary.lost or 0, dropped = dropped_marks(result), recorded = source.path ~= nil,
    ended_early = not whole and window.ended ~= (source.path and "stream-end" or "deadline")
      or source.path ~= nil and summary.complete == false,
  }
  local c, s, heap, induced = pairing.collections, pairing.suspensions, snapshot.whole_numbers(result.heap.rows), nil
  if induction then
    induced = induction:result(pairing.triggers)
    table.move(induction:notes(induced), 1, 10, #notes + 1, notes)
  end
  if c.replanned > 0 then
    notes[#notes + 1] = ("Replanned: %d collection%s planned as background ran blocking; %s counted as such."):format(c.replanned,
      c.replanned == 1 and "" or "s", c.replanned == 1 and "it is" or "they are")
  end
  if s.quality[1] == "no-gc-events" then
    notes[#notes + 1] = "NoGcEvents: the recording has no GC event: no collection happened, or it was made without the keyword GC (0x1)."
  end
  return {
    process_id = source.process and source.process.pid or summary.pid or 0, started_unix_ms = window.started_unix_ms,
    duration_ms = (summary.duration_ns or 0) / 1e6, requested_ms = not source.path and args.durationSeconds * 1000 or nil,
    start_unix_ns = summary.start_unix_ns or window.started_unix_ms * 1000000, start_mono_ns = summary.start_mono_ns,
    collections = c, suspensions = s,
    heap = {
      rows = heap, dropped = result.heap.seen - #heap, first = heap[1], last = snapshot.whole_numbers(result.last_heap.rows)[1],
    },
    induced = induced, cost = measured.price(result.cost), notes = notes, origin = source.path and "trace" or "live",
  }
end

local function collect(ctx, source, args)
  local max_rows = args.maxEvents or MAX_ROWS
  local pairing = streams.new(max_rows)
  local induction <close> = args.induce and induce.new(source.process.pid) or nil
  local result, err = probe.run(ctx, program(pairing, max_rows), {
    process = source.process, path = source.path, duration_ms = args.durationSeconds * 1000, message = "Collecting GC events",
    queue = QUEUE, save_to = args.save_to,
    -- asked while the window is open, and past its end only as long as what was forced is not over
    interrupted = induction and function() induction:begin() return false end,
    complete = induction and function() return induction:over() end,
    grace_ms = induction and induce.MAX_MS + induce.STOP_MS or nil,
  })
  if not result then return nil, err end
  local empty = source.path and collector.empty_recording(source.path, result.window.summary)
  if empty then return nil, empty end
  return artifact_of(ctx, source, args, result, pairing, induction)
end

local function check(args)
  if args.induce and args.traceFilePath then
    return nil, errors.invalid("induce", "induce forces a collection in a live process: a recording has none. Leave one of the two out.")
  end
  return true
end

return collector {
  kind = "gc", handle = "gc-events", data_field = "gc", payload = "GcSummary", check = check, collect = collect,
  risk = function(_, args) return args.induce and induce.RISK or "low" end, max_risk = induce.RISK,
  inline = function(artifact, args) return snapshot.wire(artifact, args.depth) end,
  summary = function(...) return snapshot.sentence(...) end,
}
