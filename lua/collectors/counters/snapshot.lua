-- SPDX-License-Identifier: MIT
-- The artifact behind a counters handle, and how its rows look on the wire. Never changed once made.
local json = require("lunette.json")
local numbers = require("lunette.numbers")

local M = {}

---@class CounterArtifact
---@field process_id integer
---@field started_unix_ms integer
---@field duration_ms integer
---@field interval_s number
---@field processor_count integer?
---@field counters table[]     of event_counters:finish()
---@field meters table[]       of meters:finish()
---@field provider_order string[]   as first seen
---@field silent_s number?     longest silence of System.Runtime, when that is a finding
---@field notes string[]
---@field cost table?          CollectionCost
---@field origin "live"|"trace"

-- The counters that a short answer keeps.
local HEADLINE <const> = {
  ["System.Runtime"] = {
    "cpu-usage", "working-set", "gc-heap-size", "gen-2-gc-count", "time-in-gc", "alloc-rate", "threadpool-thread-count",
    "threadpool-queue-length", "active-timer-count", "exception-count", "monitor-lock-contention-count",
  },
  ["Microsoft.AspNetCore.Hosting"] = { "requests-per-second", "failed-requests", "current-requests" },
  ["Microsoft-AspNetCore-Server-Kestrel"] = { "connections-per-second" },
}
M.REQUEST_DURATION = "http.server.request.duration"

local headline = {}
for provider, names in pairs(HEADLINE) do
  for _, name in ipairs(names) do headline[provider .. "/" .. name] = true end
end

local COUNTER_ORDER <const> = { __order = { "provider", "name", "displayName", "value", "unit", "kind" } }
local METER_ORDER <const> = { __order = { "meter", "instrument", "unit", "kind", "tags", "lastValue", "rate", "histogram" } }
local HISTOGRAM_ORDER <const> = { __order = { "count", "sum", "p50", "p95", "p99" } }

--- CounterValue.
function M.counter_row(c)
  return setmetatable({
    provider = c.provider, name = c.name, displayName = c.display_name, value = c.series.last, unit = c.unit, kind = c.kind,
  }, COUNTER_ORDER)
end

--- MeterInstrumentValue.
local function meter_row(m)
  local h = m.histogram
  return setmetatable({
    meter = m.meter, instrument = m.instrument, unit = m.unit, kind = m.kind, tags = m.tags,
    lastValue = not h and m.values.last or nil, rate = m.rate,
    histogram = h and setmetatable({ count = h.count, sum = h.sum, p50 = h.p50, p95 = h.p95, p99 = h.p99 }, HISTOGRAM_ORDER) or nil,
  }, METER_ORDER)
end

local function rows_of(list, row, keep, limit)
  local rows, left_out = json.array({}), 0
  for _, item in ipairs(list) do
    if not keep or keep(item) then
      if limit and #rows >= limit then left_out = left_out + 1 else rows[#rows + 1] = row(item) end
    end
  end
  return rows, left_out
end

--- All counters as CounterValue rows.
function M.counters(artifact) return (rows_of(artifact.counters, M.counter_row)) end

--- The headline counters only.
function M.headline(artifact)
  return (rows_of(artifact.counters, M.counter_row, function(c) return headline[c.provider .. "/" .. c.name] end))
end

--- Meter series as MeterInstrumentValue rows, at most `limit`; and how many the limit left out.
function M.meters(artifact, limit) return rows_of(artifact.meters, meter_row, nil, limit) end

--- The request duration histograms, busiest first.
function M.request_durations(artifact, limit)
  local list = {}
  for _, m in ipairs(artifact.meters) do
    if m.instrument == M.REQUEST_DURATION and m.histogram then list[#list + 1] = m end
  end
  table.sort(list, function(a, b)
    local x, y = a.histogram.count or 0, b.histogram.count or 0
    if x ~= y then return x > y end
    return a.tags_text < b.tags_text
  end)
  return rows_of(list, meter_row, nil, limit)
end

--- One counter of the artifact, or nil.
---@param artifact CounterArtifact
---@param provider string
---@param name string
function M.find(artifact, provider, name)
  for _, c in ipairs(artifact.counters) do
    if c.provider == provider and c.name == name then return c end
  end
  return nil
end

--- CounterSnapshot around the given rows.
function M.wire(artifact, counters, meters, notes)
  return setmetatable({
    processId = artifact.process_id, startedAt = numbers.iso(artifact.started_unix_ms), duration = numbers.timespan(artifact.duration_ms),
    processorCount = artifact.processor_count, counters = counters, meters = meters, notes = json.array(notes),
    cost = artifact.cost,
  }, { __order = { "processId", "startedAt", "duration", "processorCount", "counters", "meters", "notes", "cost" } })
end

return M
