-- SPDX-License-Identifier: MIT
-- How runtime metrics look on the wire: nine values, each with its course over the window; bytes, and bytes a second.
local json = require("lunette.json")
local numbers = require("lunette.numbers")

local M = {}

-- name on the wire, name in an interval, unit
local METRICS <const> = {
  { "heap", "heap", "bytes" }, { "gen0", "gen0", "bytes" }, { "gen1", "gen1", "bytes" }, { "gen2", "gen2", "bytes" },
  { "loh", "loh", "bytes" }, { "poh", "poh", "bytes" }, { "committed", "committed", "bytes" },
  { "fragmentation", "fragmentation", "bytes" }, { "allocationRate", "allocation_rate", "bytes/s" },
}

local INTERVAL_ORDER <const> = { __order = {
  "endedAt", "seconds", "heapBytes", "gen0Bytes", "gen1Bytes", "gen2Bytes", "lohBytes", "pohBytes", "committedBytes", "fragmentationBytes",
  "allocatedBytesPerSecond",
} }
local METRIC_ORDER <const> = { __order = { "metric", "unit", "last", "first", "min", "max", "mean", "intervals", "reason" } }
local SNAPSHOT_ORDER <const> = { __order = {
  "processId", "startedAt", "duration", "source", "intervalSeconds", "intervals", "discardedIntervals", "current", "currentAgeSeconds",
  "metrics", "timeline", "notes", "cost",
} }

--- RuntimeMetricsInterval.
---@param i RuntimeInterval
function M.interval(i)
  return setmetatable({
    endedAt = numbers.iso(i.end_unix_ns // 1000000), seconds = numbers.round(i.seconds, 3), heapBytes = i.heap, gen0Bytes = i.gen0,
    gen1Bytes = i.gen1, gen2Bytes = i.gen2, lohBytes = i.loh, pohBytes = i.poh, committedBytes = i.committed,
    fragmentationBytes = i.fragmentation, allocatedBytesPerSecond = i.allocation_rate,
  }, INTERVAL_ORDER)
end

local function course(intervals, field)
  local c = { n = 0, sum = 0 }
  for _, i in ipairs(intervals) do
    local v = i[field]
    if v then
      c.n, c.sum, c.last, c.first = c.n + 1, c.sum + v, v, c.first or v
      c.min, c.max = math.min(c.min or v, v), math.max(c.max or v, v)
    end
  end
  return c
end

--- RuntimeMetric rows, always nine; `last` is absent, with the reason, when the newest value is too old or was never told.
---@param artifact table
---@param limit? string   name of one metric
function M.metrics(artifact)
  local rows = json.array({})
  for k, m in ipairs(METRICS) do
    local c = course(artifact.intervals, m[2])
    local fresh = artifact.current ~= nil and artifact.current[m[2]] ~= nil
    rows[k] = setmetatable({
      metric = m[1], unit = m[3], last = fresh and artifact.current[m[2]] or nil, first = c.first, min = c.min, max = c.max,
      mean = c.n > 0 and math.floor(c.sum / c.n + 0.5) or nil, intervals = c.n,
      reason = not fresh and (c.n > 0 and artifact.stale or artifact.unmeasured) or nil,
    }, METRIC_ORDER)
  end
  return rows
end

--- RuntimeMetricsInterval rows: the newest `limit`, in order of time.
function M.timeline(artifact, limit)
  local rows, n = json.array({}), #artifact.intervals
  for k = math.max(1, n - (limit or n) + 1), n do rows[#rows + 1] = M.interval(artifact.intervals[k]) end
  return rows
end

--- The members that snapshot and summary view share.
local function head(artifact)
  return {
    source = artifact.source, intervalSeconds = artifact.interval_s, intervals = #artifact.intervals + artifact.dropped,
    discardedIntervals = artifact.discarded, current = artifact.current and M.interval(artifact.current) or nil,
    currentAgeSeconds = numbers.round(artifact.age_s, 1), metrics = M.metrics(artifact),
  }
end

--- RuntimeMetricsSummaryView.
function M.summary(artifact)
  local view = head(artifact)
  view.notes = json.array({ table.unpack(artifact.notes) })
  return setmetatable(view, SNAPSHOT_ORDER)
end

--- RuntimeMetricsSnapshot around a timeline.
function M.snapshot(artifact, timeline, notes)
  local snapshot = head(artifact)
  snapshot.processId, snapshot.startedAt = artifact.process_id, numbers.iso(artifact.started_unix_ms)
  snapshot.duration, snapshot.timeline = numbers.timespan(artifact.duration_ms), timeline
  snapshot.notes, snapshot.cost = json.array(notes), artifact.cost
  return setmetatable(snapshot, SNAPSHOT_ORDER)
end

return M
