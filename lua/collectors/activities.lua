-- SPDX-License-Identifier: MIT
-- activities: the spans of ActivitySource that end in one window: exact sums by source and operation, the first spans with their ids, times
-- and tags; one trace alone when it is named; where outgoing HTTP went when that is asked for.
local lazy = require("lunette.lazy")
local bridge = require("collectors.diagnostic_source")
local collector = require("lunette.collector")
local destinations = lazy("collectors.activities.destinations")
local globs = require("collectors.globs")
local measured = require("collectors.measured")
local numbers = require("lunette.numbers")
local probe = require("lunette.probe")
local program = lazy("collectors.activities.program")
local spans = lazy("collectors.activities.spans")
local trace_ids = lazy("collectors.activities.trace_ids")
local wire = lazy("collectors.activities.wire")

local DEFAULT_CAP <const> = 200
local MAX_CAP <const> = 10000 -- spans kept
local NAMES_SHOWN <const> = 8

local function check(args)
  local _, bad = globs.check("sources", args.sources)
  if bad then return nil, bad end
  if args.traceId then
    _, bad = trace_ids.parse(args.traceId)
    if bad then return nil, bad end
  end
  return true
end

--- What is asked, with the defaults of a caller that is no client.
local function asked_of(args)
  local trace = args.traceId and trace_ids.parse(args.traceId) or nil
  local wanted = (trace and args.maxMatchedActivities or not trace and args.maxActivities) or DEFAULT_CAP
  return {
    sources = globs.check("sources", args.sources), trace_id = trace, cap = math.min(wanted, MAX_CAP), wanted = wanted,
    destinations = args.includeHttpDestination or false,
  }
end

local function cap_name(asked) return asked.trace_id and "maxMatchedActivities" or "maxActivities" end

--- Why there is nothing, as far as the stream tells.
local function nothing_note(source, asked, result)
  local names = spans.names(result.seen)
  if #names > 0 and asked.sources then
    return ("NoMatch: sources fits none of the spans that ended; letter case counts. Seen: %s."):format(
      table.concat(names, ", ", 1, math.min(#names, NAMES_SHOWN)))
  end
  if source.path then return nil end
  if result.alive == 0 then
    return "ProviderSilent: the program never loaded System.Diagnostics.DiagnosticSource, or the window was too short for its answer."
  end
  return "NoActivities: no span ended in the window: the program makes none" .. (asked.sources and " in these sources" or "")
    .. ", was idle, or its spans were still running; another tool's filter on the same process also takes them away."
end

local function notes_of(source, asked, result, artifact)
  local notes, r = { table.unpack(result.notes) }, artifact.retention
  local function say(when, fmt, ...)
    if when then notes[#notes + 1] = fmt:format(...) end
  end
  measured.none_recorded(notes, source, result.seen.keys, "span", "the provider " .. bridge.PROVIDER .. " and a specification [AS]")
  if r.observed == 0 then notes[#notes + 1] = nothing_note(source, asked, result) end
  say(r.matching > r.retained, "RetentionLimited: the first %d of %d %s spans are kept; sums are of all. A larger %s keeps more.",
    r.retained, r.matching, asked.trace_id and "matching" or "observed", cap_name(asked))
  say(asked.wanted > MAX_CAP, "RowLimit: %s %d was cut to %d.", cap_name(asked), asked.wanted, MAX_CAP)
  say(asked.trace_id and r.observed > 0 and r.matching == 0, "TraceNotSeen: none of %d spans that ended is of this trace.", r.observed)
  say(artifact.untold > 0, "OperationLimit: more than %d operations; %d spans of the others are in the totals only.",
    program.MAX_OPERATIONS, artifact.untold)
  local a = artifact.destinations
  say(a and a.cap_limited, "DestinationLimit: more than %d requests began; of those that ended later the destination is withheld.",
    program.MAX_STARTS)
  say(a and (a.lost or 0) > 0, "DestinationsWithheld: %d events were lost, so no destination is certain.", a and a.lost or 0)
  return notes
end

local function artifact_of(source, asked, result)
  local window = measured.window(result, source)
  local summary = result.window.summary
  local start = summary.start_unix_ns or window.started_unix_ms * 1000000
  local list = spans.list(result.spans.rows, start)
  for i, s in ipairs(list) do s.ordinal = i end
  local by_source, by_operation, untold = spans.sums(result.operations)
  local artifact = {
    process_id = window.process_id, started_unix_ms = window.started_unix_ms, duration_ms = window.duration_ms, spans = list,
    sources = asked.sources, by_source = by_source, by_operation = by_operation, untold = untold,
    retention = {
      trace_id = asked.trace_id, cap = asked.cap, observed = result.observed, matching = result.matching, retained = #list,
    },
    destinations = asked.destinations and destinations.join(list, result.starts, summary.lost) or nil,
    start_unix_ns = start, start_mono_ns = summary.start_mono_ns, clock_offset = spans.clock_offset(list), lost = window.lost or 0,
    ended_early = window.ended_early, cost = window.cost,
  }
  artifact.notes = notes_of(source, asked, result, artifact)
  return artifact
end

local function collect(ctx, source, args)
  local asked = asked_of(args)
  local window <close> = bridge.enter(source.process and source.process.pid, program.lines(asked.sources, asked.destinations))
  local result, err = probe.run(ctx, program.new(asked), {
    process = source.process, path = source.path, duration_ms = args.durationSeconds * 1000, save_to = args.save_to,
    message = "Collecting activities", bridge = window,
  })
  if not result then return nil, err end
  local empty = source.path and collector.empty_recording(source.path, result.window.summary)
  if empty then return nil, empty end
  local artifact = artifact_of(source, asked, result)
  bridge.notes(artifact.notes, window, result.settings)
  return artifact
end

local function sentence(artifact, source)
  local r, top = artifact.retention, artifact.by_operation[1]
  local what = source.path and "the recording" or ("process %d"):format(artifact.process_id)
  local said = ("%d span%s of %s ended in %s"):format(r.observed, r.observed == 1 and "" or "s", what,
    numbers.span(artifact.duration_ms))
  if r.trace_id then said = said .. (", %d of trace %s"):format(r.matching, r.trace_id) end
  if top then
    said = said .. ("; most often %s of %s (%d, at most %.1f ms)"):format(top.operation, top.source, top.n, top.max_ms)
  end
  local a = artifact.destinations
  if a then said = said .. ("; %d destinations joined, %d withheld or missing"):format(a.matched,
    a.missing + a.duplicate + a.conflicting + a.withheld) end
  return said .. "."
end

return collector {
  kind = "activities", handle = "activities", data_field = "activities", payload = "ActivityCapture", check = check,
  collect = collect,
  risk = {
    level = "moderate", side_effects = {
      "takes the one DiagnosticSource filter of the process while it runs", "makes the program create spans that nobody listened to",
    },
  },
  inline = function(artifact, args)
    return wire.capture(artifact, (args.maxActivities or DEFAULT_CAP) ~= DEFAULT_CAP
      or (args.maxMatchedActivities or DEFAULT_CAP) ~= DEFAULT_CAP)
  end,
  summary = sentence,
}
