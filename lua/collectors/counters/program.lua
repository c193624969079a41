-- SPDX-License-Identifier: MIT
-- What the counters collector asks of the reducer engine: one row for each event of a counter, a Meter or the processor count. They are few
-- (hundreds a second), and what becomes of them depends on the intervals and limits of other sessions: that is decided in Lua.
local meters = require("collectors.counters.meters")
local probe = require("lunette.probe")

local M = {}

M.RUNTIME = "System.Runtime"
local COUNTERS <const>, PROCESSORS <const> = "EventCounters", "ProcessorCount"

-- Fields of an EventCounters payload; some sources nest it.
local COUNTER_FIELDS <const> = {
  "Name", "DisplayName", "DisplayUnits", "CounterType", "Increment", "Mean", "Count", "IntervalSec", "Series",
}
-- Fields of the events of System.Diagnostics.Metrics, each has some of them.
local METER_FIELDS <const> = {
  "sessionId", "clientId", "meterName", "instrumentName", "instrumentId", "instrumentType", "unit", "tags", "rate", "value", "lastValue",
  "quantiles", "count", "sum", "intervalStartTime", "intervalEndTime", "errorMessage", "runningSessionId", "expectedMaxHistograms",
  "expectedMaxTimeSeries", "expectedRefreshInterval",
}

local function row_of(fields, expression)
  local row = { { "@provider", "@provider" }, { "@event", "@event" }, { "@version", "@version" }, { "@time", "@time" } }
  for _, name in ipairs(fields) do row[#row + 1] = { name, expression:gsub("NAME", name) } end
  return row
end

-- A row as the event that it is of; its columns are the fields, beside what every event has.
local function event_of(row)
  return { provider = row["@provider"], name = row["@event"], version = row["@version"], time_ns = row["@time"], fields = row }
end

--- The program. on_event(event) sees each event in the order of the stream: { provider, name, version, time_ns, fields }.
---@param providers table[]   to enable in a live target
---@param with_meters boolean
---@param on_event fun(event: table)
function M.new(providers, with_meters, on_event)
  local events = { counter = "*/" .. COUNTERS, processors = M.RUNTIME .. "/" .. PROCESSORS }
  local function each(fields, expression, on)
    return probe.each(function(row) on_event(event_of(row)) end, row_of(fields, expression), { on = on })
  end
  local keep = {
    counters = each(COUNTER_FIELDS, "coalesce(Payload.NAME, NAME)", "counter"),
    processors = each({ "processorCount" }, "NAME", "processors"),
  }
  if with_meters then
    events.meter = meters.PROVIDER .. "/*"
    keep.meters = each(METER_FIELDS, "NAME", "meter")
  end
  return probe.program { name = "counters", providers = providers, events = events, keep = keep }
end

return M
