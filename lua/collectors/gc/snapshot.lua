-- SPDX-License-Identifier: MIT
-- The artifact behind a gc-events handle, and how its rows look on the wire. Never changed once made.
local json = require("lunette.json")
local numbers = require("lunette.numbers")

local M = {}

M.VERSION = 2         -- of the measurement
M.INLINE_ROWS = 100   -- of each list at Detail; the handle has all
M.LABELS = { "<1ms", "1-10ms", "10-100ms", "100-1000ms", ">=1s" }
M.BOUNDS = { 1, 10, 100, 1000, 2147483647 }

---@class GcArtifact
---@field process_id integer
---@field started_unix_ms integer
---@field duration_ms number       as observed
---@field requested_ms number?     as asked; nil for a recording
---@field start_unix_ns integer    of the time 0 of all rows
---@field start_mono_ns integer?   the same by the events' clock
---@field collections table        collectors.gc.collections, finished
---@field suspensions table        collectors.gc.suspensions, finished
---@field heap { rows: table[], dropped: integer, first: table?, last: table? }   HeapStats in bytes, oldest first
---@field induced table?           what induce=true did, see collectors.gc.induce
---@field cost table?              CollectionCost
---@field notes string[]
---@field origin "live"|"trace"

local function span(ns) return ns and numbers.timespan(ns / 1e6) or nil end
local function when(artifact, ns) return numbers.iso((artifact.start_unix_ns + ns) / 1e6) end

--- The first `limit` rows of a list, each through `row`; and how many were left out.
local function rows_of(list, row, limit)
  local rows = json.array({})
  for i = 1, math.min(#list, limit or #list) do rows[i] = row(list[i], i) end
  return rows, #list - #rows
end
M.rows_of = rows_of

local EVENT_ORDER <const> = { __order = { "timestamp", "generation", "reason", "type", "pauseDuration" } }
local ROW_ORDER <const> = { __order = { "index", "timestamp", "generation", "reason", "type", "elapsed", "gapSincePrevious" } }
local INTERVAL_ORDER <const> = { __order = { "startedAt", "endedAt", "duration", "reason", "countAtSuspend", "isReliable" } }
local HEAP_ORDER <const> = { __order = {
  "timestamp", "gen0SizeBytes", "gen1SizeBytes", "gen2SizeBytes", "lohSizeBytes", "pohSizeBytes", "totalHeapBytes", "promotedBytes" } }

--- GcEvent rows.
function M.events(artifact, limit)
  return rows_of(artifact.collections.rows, function(c)
    return setmetatable({
      timestamp = when(artifact, c.start_ns), generation = c.generation, reason = c.reason, type = c.type,
      pauseDuration = span(c.end_ns - c.start_ns),
    }, EVENT_ORDER)
  end, limit)
end

--- GcCollectionRow rows in order of start. The gap is the time in which no collection ran; 0 for one that began beside another.
function M.timeline(artifact, limit)
  local ended
  return rows_of(artifact.collections.rows, function(c, i)
    local gap = ended and math.max(0, c.start_ns - ended)
    ended = math.max(ended or c.end_ns, c.end_ns)
    return setmetatable({
      index = i, timestamp = when(artifact, c.start_ns), generation = c.generation, reason = c.reason, type = c.type,
      elapsed = span(c.end_ns - c.start_ns), gapSincePrevious = span(gap),
    }, ROW_ORDER)
  end, limit)
end

--- One GcSuspensionInterval.
function M.interval(artifact, row)
  return setmetatable({
    startedAt = when(artifact, row.start_ns), endedAt = row.end_ns and when(artifact, row.end_ns),
    duration = row.end_ns and span(row.end_ns - row.start_ns), reason = row.reason, countAtSuspend = row.count, isReliable = row.reliable,
  }, INTERVAL_ORDER)
end

--- The n longest validated phases, longest first.
function M.longest(artifact, n)
  local list = table.move(artifact.suspensions.longest, 1, #artifact.suspensions.longest, 1, {})
  table.sort(list, function(a, b)
    local x, y = a.end_ns - a.start_ns, b.end_ns - b.start_ns
    if x ~= y then return x > y end
    return a.start_ns < b.start_ns
  end)
  return table.move(list, 1, math.min(n, #list), 1, {})
end

-- No heap has so much; a damaged recording may say so, and sums of it must stay whole numbers.
local MOST <const> = 1 << 53

--- Rows of heap samples, whose numbers are made fit to be added up.
---@param rows table[]   of the program; changed in place
function M.whole_numbers(rows)
  for _, row in ipairs(rows) do
    for name, value in pairs(row) do
      if name ~= "at" then row[name] = math.tointeger(math.max(0, math.min(MOST, tonumber(value) or 0))) or 0 end
    end
  end
  return rows
end

--- GcHeapStatsSample rows, oldest first.
function M.heap_stats(artifact, limit)
  return rows_of(artifact.heap.rows, function(s) return M.heap_sample(artifact, s) end, limit)
end

--- All generations of a heap sample together.
function M.heap_bytes(s) return s.gen0 + s.gen1 + s.gen2 + s.loh + (s.poh or 0) end

function M.heap_sample(artifact, s)
  return setmetatable({
    timestamp = when(artifact, s.at), gen0SizeBytes = s.gen0, gen1SizeBytes = s.gen1, gen2SizeBytes = s.gen2, lohSizeBytes = s.loh,
    pohSizeBytes = s.poh or 0, totalHeapBytes = M.heap_bytes(s), promotedBytes = s.promoted,
    finalizationSurvivors = s.survivors, pinnedObjectCount = s.pinned, gcHandleCount = s.handles,
  }, HEAP_ORDER)
end

--- GenerationStats: how often each generation was the one collected; 0, 1 and 2 always.
function M.generations(artifact)
  local counts, list = artifact.collections.generations, json.array({})
  for generation = 0, 2 do list[generation + 1] = { generation = generation, count = counts[generation] or 0 } end
  return list
end

--- GcSuspensionMeasurement with at most `limit` intervals. Values are nil when they are unavailable, never 0.
function M.suspension(artifact, limit)
  local s = artifact.suspensions
  local intervals, omitted = rows_of(s.rows, function(row) return M.interval(artifact, row) end, limit)
  local known = s.status ~= "unavailable" or nil
  return setmetatable({
    measurementVersion = M.VERSION, measurementStatus = s.status,
    totalSuspensionTime = known and span(s.pause.sum_ns), maxSuspensionTime = known and span(s.pause.max_ns),
    p50SuspensionTime = known and span(s.pause:percentile(50)), p95SuspensionTime = known and span(s.pause:percentile(95)),
    p99SuspensionTime = known and span(s.pause:percentile(99)),
    fullySuspendedPercent = known and M.suspended_percent(artifact),
    acquisitionTime = known and span(s.acquire.sum_ns), restartTime = known and span(s.restart.sum_ns),
    intervals = intervals, retainedIntervals = #s.rows, droppedIntervals = s.dropped, outputOmittedIntervals = omitted,
    quality = json.array({ table.unpack(s.quality) }),
  }, { __order = {
    "measurementVersion", "measurementStatus", "totalSuspensionTime", "maxSuspensionTime", "p50SuspensionTime", "p95SuspensionTime",
    "p99SuspensionTime", "fullySuspendedPercent", "acquisitionTime", "restartTime", "retainedIntervals", "droppedIntervals",
    "outputOmittedIntervals", "quality", "intervals" } })
end

--- Share of the observed window, 0 to 100; nil when it cannot be told.
function M.suspended_percent(artifact)
  if artifact.suspensions.status == "unavailable" or artifact.duration_ms <= 0 then return nil end
  return numbers.round(artifact.suspensions.pause.sum_ns / 1e4 / artifact.duration_ms, 3)
end

local function notes_of(artifact, more)
  local notes = json.array({ table.unpack(artifact.notes) })
  for _, text in ipairs(more or {}) do notes[#notes + 1] = text end
  return notes
end

--- GcMeasurementView without what a view adds. Its suspension block leaves the intervals to the view longestPauses.
---@param artifact GcArtifact
---@param more table   members of the view
function M.measurement(artifact, more)
  local c = artifact.collections
  local payload = {
    measurementVersion = M.VERSION, measurementStatus = artifact.suspensions.status, totalCollections = c.total,
    totalCollectionElapsed = span(c.elapsed.sum_ns), maxCollectionElapsed = span(c.elapsed.max_ns), retainedCollections = #c.rows,
    droppedCollections = c.dropped, suspension = M.suspension(artifact, 0), collectionQuality = json.array({ table.unpack(c.quality) }),
  }
  for name, value in pairs(more) do payload[name] = value end
  return setmetatable(payload, { __order = {
    "measurementVersion", "measurementStatus", "totalCollections", "totalCollectionElapsed", "maxCollectionElapsed",
    "retainedCollections", "droppedCollections", "collectionQuality", "generations", "suspension", "returned" } })
end

--- GcSummary: all of it at Detail, within bounds; at Summary without collections and intervals, and with the first and last heap sample.
---@param artifact GcArtifact
---@param depth string
function M.wire(artifact, depth)
  local limit = depth == "Summary" and 0 or M.INLINE_ROWS
  local c, said = artifact.collections, {}
  local events = M.events(artifact, limit)
  local heap, left_out = M.heap_stats(artifact, limit)
  if depth == "Summary" and #artifact.heap.rows > 0 then
    local rows = artifact.heap.rows
    heap, left_out = json.array({ M.heap_sample(artifact, rows[1]) }), #rows - 1
    if #rows > 1 then heap[2], left_out = M.heap_sample(artifact, rows[#rows]), #rows - 2 end
  end
  if left_out > 0 then
    said[1] = ("Inline: %d more heap samples are behind the handle: query_snapshot(view=\"heap-stats\")."):format(left_out)
  end
  return setmetatable({
    processId = artifact.process_id, startedAt = numbers.iso(artifact.started_unix_ms), duration = numbers.timespan(artifact.duration_ms),
    requestedDuration = artifact.requested_ms and numbers.timespan(artifact.requested_ms), totalCollections = c.total,
    totalPauseTime = span(c.elapsed.sum_ns), maxPauseTime = span(c.elapsed.max_ns), generations = M.generations(artifact),
    reasons = next(c.reasons) and c.reasons or nil, collectionQuality = json.array({ table.unpack(c.quality) }),
    suspension = M.suspension(artifact, limit), induced = artifact.induced, events = events, heapStats = heap, droppedEvents = c.dropped,
    droppedHeapStats = artifact.heap.dropped, notes = notes_of(artifact, said), cost = artifact.cost,
  }, { __order = {
    "processId", "startedAt", "duration", "requestedDuration", "totalCollections", "totalPauseTime", "maxPauseTime", "generations",
    "reasons", "collectionQuality", "suspension", "induced", "events", "heapStats", "droppedEvents", "droppedHeapStats", "notes",
    "cost" } })
end

--- The window in one sentence.
function M.sentence(artifact)
  local c, s = artifact.collections, artifact.suspensions
  local by = {}
  for generation = 0, 2 do by[generation + 1] = ("gen%d %d"):format(generation, c.generations[generation] or 0) end
  local said = ("%d collection%s (%s) of %s over %s; "):format(c.total, c.total == 1 and "" or "s", table.concat(by, ", "),
    artifact.origin == "trace" and "the recording" or ("process %d"):format(artifact.process_id), numbers.span(artifact.duration_ms))
  if s.status == "unavailable" then return said .. ("pauses are not known (%s)."):format(table.concat(s.quality, ", ")) end
  if s.pause.n == 0 then return said .. "no pause." end
  return said .. ("fully suspended %s%.1f ms in %d pauses (%s %% of the window), the longest %.1f ms."):format(
    s.status == "degraded" and "at least " or "", s.pause.sum_ns / 1e6, s.pause.n, tostring(M.suspended_percent(artifact)),
    s.pause.max_ns / 1e6)
end

M.notes = notes_of
M.span = span
return M
