-- SPDX-License-Identifier: MIT
-- What a reader of counters should know beside the values: who was silent, what a cap left out, what the runtime complained about.
local thresholds = require("lunette.thresholds")

local M = {}

M.RUNTIME = "System.Runtime"
M.MAX_NAMES = 10 -- counter names in one note

local SILENT_CAUSE <const> = "the process was stopped, starved of CPU, or its counter thread was held up."

--- A provider that spoke, but not in every interval. Returns the seconds of silence, nil when there was none.
local function silence(p, end_ns, plan, notes)
  local tail_s = (end_ns - p.last_ns) / 1e9
  if p.longest_s > 0 then
    notes[#notes + 1] = ("SilentInterval: %s was silent for %.1f s (interval %d s): %s")
      :format(p.name, p.longest_s, plan.interval_s, SILENT_CAUSE)
    return p.longest_s
  end
  local limits = thresholds.of("runtime.silent-interval")
  if tail_s > limits.tail_intervals * plan.interval_s + limits.tail_s then
    notes[#notes + 1] = ("SilentInterval: nothing came from %s in the last %.1f s (interval %d s): %s")
      :format(p.name, tail_s, plan.interval_s, SILENT_CAUSE)
    return tail_s
  end
end

local function providers(plan, state, notes)
  local end_ns = state.result.ended == "deadline" and state.result.elapsed_ms * 1000000 or state.last_ns
  local unseen = {}
  for _, name in ipairs(plan.providers) do
    local p = state.counters.providers[name]
    if p then
      local silent_s = silence(p, end_ns, plan, notes)
      if name == M.RUNTIME then state.silent_s = silent_s end
    elseif plan.explicit or name == M.RUNTIME then -- a program without ASP.NET Core is no finding
      unseen[#unseen + 1] = name
    end
  end
  if #unseen > 0 then
    notes[#notes + 1] = ("ProviderSilent: no counter came from %s. The program has no such EventSource, has event sources switched off "
      .. "(EventSourceSupport=false), was still starting, or the window was too short."):format(table.concat(unseen, ", "))
  end
end

local function counters(ec, notes)
  if ec.dropped > 0 then
    notes[#notes + 1] = ("CounterLimitReached: capped at %d counters; %d values of others were left out.")
      :format(ec.MAX_COUNTERS, ec.dropped)
  end
  if #ec.stale > 0 then
    notes[#notes + 1] = ("FirstReading: %s is left out: its first reading after enabling is about the time before, not about this window. "
      .. "Use a window of two intervals or more."):format(table.concat(ec.stale, ", "))
  end
  local silent = ec.without_value
  if #silent > 0 then
    local more = #silent > M.MAX_NAMES and (" and %d more"):format(#silent - M.MAX_NAMES) or ""
    notes[#notes + 1] = ("NoMeasurement: nothing was written in the window to %s%s.")
      :format(table.concat(silent, ", ", 1, math.min(M.MAX_NAMES, #silent)), more)
  end
end

local function meters(plan, state, rows, notes)
  local m = state.meters
  if m.dropped > 0 or m.series_limit then
    notes[#notes + 1] = ("TimeSeriesLimitReached: capped at %d series."):format(plan.max_series)
  end
  if m.histogram_limit then
    notes[#notes + 1] = ("HistogramLimitReached: the target keeps at most %d histograms."):format(plan.limits.max_histograms)
  end
  for _, text in ipairs(m.errors) do notes[#notes + 1] = text end
  if m.running_session then
    notes[#notes + 1] = ("MetersBusy: another tool holds this process's only unshared Meter session (%s); no Meter value could be "
      .. "collected before it ends."):format(m.running_session)
  elseif #plan.meters > 0 and not plan.implicit_meters and #rows == 0 and state.result.ended ~= "stream-end" then
    notes[#notes + 1] = m.collections > 0
      and "MetersSilent: none of the asked Meters published a value; check the names, and that the instruments were used."
      or "MetersSilent: the process runs no Meter collection: it never loaded System.Diagnostics.DiagnosticSource, or was still starting."
  end
end

--- Appends the notes of one window.
---@param notes string[]
---@param plan table     what was asked, see collectors.counters
---@param state table    what came
---@param rows table[]   Meter series
function M.add(notes, plan, state, rows)
  providers(plan, state, notes)
  counters(state.counters, notes)
  meters(plan, state, rows, notes)
  local not_finite = state.counters.not_finite + state.meters.not_finite
  if not_finite > 0 then
    notes[#notes + 1] = ("NotFinite: %d values that are no numbers (NaN or infinite) were left out."):format(not_finite)
  end
  local malformed = state.counters.malformed + state.meters.malformed
  if malformed > 0 then
    notes[#notes + 1] = ("Malformed: %d events had another shape than expected and were left out."):format(malformed)
  end
end

return M
