-- SPDX-License-Identifier: MIT
-- runtime-metrics: nine values of the managed heap, once a second, from complete intervals only: of the System.Runtime meter on .NET 9 and
-- later, of EventCounters before. A failed try is told once and not repeated.
local lazy = require("lunette.lazy")
local collector = require("lunette.collector")
local counters = lazy("collectors.runtime_metrics.counters")
local crypto = require("lunette.crypto")
local errors = require("lunette.errors")
local json = require("lunette.json")
local loop = require("lunette.loop")
local measured = require("collectors.measured")
local meter = lazy("collectors.runtime_metrics.meter")
local numbers = require("lunette.numbers")
local window = require("collectors.window")
local wire = lazy("collectors.runtime_metrics.wire")

local FIRST_MS <const> = 5000  -- for the first complete interval
local FRESH_S <const> = 3      -- an interval that ended longer ago says nothing of now
local GRACE_MS <const> = 800   -- past the window, for an interval that is due
local MAX_INTERVALS <const> = 3600
local MAX_INLINE <const> = 120 -- intervals in a detailed answer
local BUFFER_MB <const> = 16
local LEVEL <const> = 4
local TIME_SERIES_VALUES <const> = 0x2 -- of System.Diagnostics.Metrics
local METER_SINCE <const> = 9          -- first major version with the System.Runtime meter
local LIMITS <const> = { max_series = meter.MAX_SERIES, max_histograms = 0, interval_s = 1 }

--- "meter" or "eventCounters", by the version that the runtime tells; one that tells none is taken for a new one.
local function source_of(process)
  local major = tonumber(((process.record or {}).runtimeVersion or ""):match("^(%d+)%."))
  return major and major < METER_SINCE and "eventCounters" or "meter"
end

local function providers(state)
  if state.source == "eventCounters" then
    return { { name = counters.PROVIDER, keywords = 0, level = LEVEL, args = "EventCounterIntervalSec=1" } }
  end
  return {
    { name = meter.PROVIDER, keywords = TIME_SERIES_VALUES, level = LEVEL, args = meter.arguments(state.client_id, state.limits) },
  }
end

local function new_state(from, limits, duration_s)
  local state = { intervals = {}, dropped = 0, last_ns = 0, limits = limits, client_id = from.process and crypto.uuid() }
  local function keep(source)
    return function(interval)
      state.seen = state.seen or source
      if source ~= state.seen then return end -- a recording with both: the first to be complete is taken
      if #state.intervals == MAX_INTERVALS then
        table.remove(state.intervals, 1)
        state.dropped = state.dropped + 1
      end
      state.intervals[#state.intervals + 1] = interval
    end
  end
  state.meter = meter.new { client_id = state.client_id, on_interval = keep("meter") }
  state.counters = counters.new { on_interval = keep("eventCounters") }
  state.source = from.process and source_of(from.process)
  state.duration_ms = from.process and duration_s * 1000
  state.first_ms = math.max(FIRST_MS, math.floor(2000 * limits.interval_s) + GRACE_MS)
  return state
end

local function n_intervals(state) return #state.intervals + state.dropped end

-- Past its end the window is held open for the first interval, and a little for one that is due.
local function complete(state)
  return function(elapsed_ms)
    if n_intervals(state) == 0 then return elapsed_ms >= state.first_ms end
    return elapsed_ms >= state.duration_ms + GRACE_MS or n_intervals(state) >= elapsed_ms // (state.limits.interval_s * 1000)
  end
end

--- One session. state.meter.expected is set when another client's collection wants other limits.
local function capture(ctx, from, limits, args)
  local state = new_state(from, limits, args.durationSeconds)
  local open = { path = from.path, want = { { provider = meter.PROVIDER }, { provider = counters.PROVIDER, event = "EventCounters" } } }
  if from.process then
    open.pid, open.providers, open.buffer_mb, open.rundown = from.process.pid, providers(state), BUFFER_MB, 0
    open.save_to = args.save_to
  end
  local opened_ms = loop.now_ms()
  state.spec = {
    open = open, priced = true, duration_ms = state.duration_ms, message = "Collecting runtime metrics",
    grace_ms = state.duration_ms and math.max(GRACE_MS, state.first_ms - state.duration_ms), complete = complete(state),
    interrupted = function()
      if not from.process then return false end
      state.timed_out = n_intervals(state) == 0 and loop.now_ms() - opened_ms >= state.first_ms
      return state.timed_out or state.meter.expected ~= nil
    end,
    on_event = function(event)
      state.last_ns = math.max(state.last_ns, event.time_ns)
      state.meter:add(event)
      state.counters:add(event)
    end,
  }
  local err
  state.result, err = window.run(ctx, state.spec)
  if not state.result then return nil, err end
  return state
end

--- The error of a live window without a single interval.
local function nothing(pid, state)
  local id = { process_id = pid }
  if state.result.ended == "stream-end" then
    return errors.new("ProcessExited", ("Process %d ended its event stream %.1f s into the window, before a complete interval.")
      :format(pid, state.result.elapsed_ms / 1000), id)
  end
  if state.meter.busy then
    return errors.new("Busy", ("Another tool holds the only Meter session of process %d, and its collection has not all of these values; "
      .. "stop it, or use kind=counters."):format(pid), id)
  end
  return errors.new("EndpointUnavailable", ("Process %d told no complete interval of its runtime metrics within %.1f s. It was stopped or "
    .. "starved of CPU, was still starting, or has event sources or meters switched off (EventSourceSupport, "
    .. "System.Diagnostics.Metrics.Meter.IsSupported). It is not tried again by itself: repeat the call.")
    :format(pid, state.first_ms / 1000), { process_id = pid, detail = "Timeout" })
end

local function add_notes(artifact, state)
  local notes = artifact.notes
  window.notes(state.result, state.spec, notes)
  for _, text in ipairs(state.meter.errors) do notes[#notes + 1] = "Metrics error: " .. text end
  local newest = artifact.intervals[#artifact.intervals]
  if state.meter.busy and newest then
    notes[#notes + 1] = ("MetersOfAnotherTool: another tool holds the only Meter session of this process; these are the values of its "
      .. "collection, every %.3g s."):format(newest.seconds)
  end
  if state.meter.limit_reached then
    notes[#notes + 1] = "TimeSeriesLimitReached: the collection shared with other clients is full; those that lack values are discarded."
  end
  if artifact.discarded > 0 then
    notes[#notes + 1] = ("IncompleteIntervals: %d intervals lacked a value or their beginning and were discarded.")
      :format(artifact.discarded)
  end
  if artifact.stale and artifact.current == nil and #artifact.intervals > 0 then notes[#notes + 1] = "Stale: " .. artifact.stale .. "." end
  if artifact.source == "meter" and newest then
    notes[#notes + 1] = newest.heap == 0 and newest.committed == 0
      and "NoCollectionYet: sizes are those after the last collection, and there was none yet: 0 means not known."
      or "AsOfLastCollection: all sizes are those after the last collection, not of this moment."
  elseif artifact.source == "eventCounters" and newest then
    notes[#notes + 1] = "MixedMoments: heap is of the moment, all other sizes are those after the last collection; fragmentation is its "
      .. "share then, of the heap now."
  end
  if not newest then notes[#notes + 1] = "NoInterval: the recording holds no complete interval of the runtime's metrics." end
end

local function artifact_of(from, state, notes)
  local summary, live = state.result.summary, from.process
  local artifact = {
    process_id = live and live.pid or summary.pid or 0, started_unix_ms = state.result.started_unix_ms,
    duration_ms = live and state.result.elapsed_ms or math.floor((summary.duration_ns or state.last_ns) / 1e6),
    source = state.seen or state.source or "none", interval_s = state.limits.interval_s, intervals = state.intervals,
    dropped = state.dropped, notes = notes, cost = measured.price(state.result.cost),
  }
  artifact.discarded = artifact.source == "eventCounters" and state.counters.discarded or state.meter.discarded
  local last = state.intervals[#state.intervals]
  if last then
    artifact.age_s = math.max(0, artifact.duration_ms / 1000 - last.end_ns / 1e9)
    if artifact.age_s <= FRESH_S then artifact.current = last end
    artifact.stale = ("the newest complete interval ended %.1f s before the end of the window, and what is older than %d s is not told as "
      .. "current"):format(artifact.age_s, FRESH_S)
  end
  artifact.unmeasured = #state.intervals == 1 and "a rate needs an interval before it: use a window of 3 s or more"
    or "no complete interval had it"
  add_notes(artifact, state)
  return artifact
end

local function collect(ctx, from, args)
  local ok, err = window.settle(from.process)
  if not ok then return nil, err end
  local notes, state = {}
  state, err = capture(ctx, from, LIMITS, args)
  if state and state.meter.expected and from.process then
    local limits = state.meter.expected
    notes[1] = ("SharedMeterSession: another client collects Meters of this process already; joined with its limits (%d series, "
      .. "every %s s)."):format(limits.max_series, limits.interval_s)
    state, err = capture(ctx, from, limits, args)
  end
  if not state then return nil, err end
  err = from.path and collector.empty_recording(from.path, state.result.summary)
  if err then return nil, err end
  if from.process and n_intervals(state) == 0 then return nil, nothing(from.process.pid, state) end
  return artifact_of(from, state, notes)
end

local function inline(artifact, args)
  local notes, timeline = { table.unpack(artifact.notes) }, json.array({})
  if args.depth ~= "Summary" then timeline = wire.timeline(artifact, MAX_INLINE) end
  if #timeline < #artifact.intervals then
    notes[#notes + 1] = "Inline: the values of each interval are behind the handle: query_snapshot(view=\"timeline\")."
  end
  return wire.snapshot(artifact, timeline, notes)
end

local function sentence(artifact, from)
  local what = from.path and "the recording" or ("process %d"):format(artifact.process_id)
  local c = artifact.current
  local sizes = c and (c.heap == 0 and c.committed == 0 and "no collection yet, so the sizes of the heap are not known"
    or ("heap %.1f MB, committed %.1f MB"):format(c.heap / 1e6, c.committed / 1e6))
  local now = c and (": %s%s"):format(sizes,
    c.allocation_rate and (", allocating %.1f MB/s"):format(c.allocation_rate / 1e6) or "") or ""
  return ("%d complete intervals of %s over %s%s."):format(#artifact.intervals + artifact.dropped, what,
    numbers.span(artifact.duration_ms), now)
end

return collector {
  kind = "runtime-metrics", handle = "runtime-metrics-snapshot", data_field = "runtimeMetrics", payload = "RuntimeMetricsSnapshot",
  risk = "low", collect = collect, inline = inline, summary = sentence,
}
