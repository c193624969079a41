-- SPDX-License-Identifier: MIT
-- The requests of a window that had no end when it closed, oldest first.
local bridge = require("collectors.diagnostic_source")
local paths = require("collectors.web_paths")
local thresholds = require("lunette.thresholds")

local M = {}

local MS <const> = 1000000 -- ns
local SLICE_NS <const> = 100 * MS

---@class InFlight
---@field trace_id string?
---@field span_id string?
---@field method string
---@field path string
---@field started_unix_ms integer
---@field elapsed_ms number
---@field long boolean
---@field thread integer?   on which it began, as its process numbers it

---@class RequestsArtifact
---@field process_id integer
---@field started_unix_ms integer
---@field duration_ms integer
---@field started integer       requests that began in the window
---@field completed integer     of them, those that ended in it
---@field in_flight integer     of them, those that did not
---@field rows InFlight[]       oldest first
---@field threshold_ms number
---@field long_running integer
---@field oldest_ms number?
---@field notes string[]
---@field cost table?

-- 00-TRACE-SPAN-FLAGS; other forms of an id have no trace.
local function ids(id)
  local trace, span = tostring(id):match("^%x%x%-(%x+)%-(%x+)%-%x%x$")
  if trace and #trace == 32 and #span == 16 then return trace, span end
  return nil
end

local function row_of(row, end_unix_ns, threshold_ms)
  local trace, span = ids(row.id or "")
  local elapsed = math.max(0, (end_unix_ns - row.at) / MS)
  return {
    trace_id = trace, span_id = span, method = paths.method(row.method), path = paths.path(row.path), started_unix_ms = row.at // MS,
    elapsed_ms = elapsed, long = elapsed > threshold_ms, thread = row.thread,
  }
end

-- Those that ended since the slice before the server's last count: at most so many were in flight then beside those that still are.
local function ended_since(by_slice, at_ns)
  local n = 0
  for _, bucket in ipairs(by_slice.buckets) do
    if bucket.at_ns + SLICE_NS >= at_ns then n = n + bucket.n end
  end
  return n
end

--- How many requests in flight had begun before the window, by the server's own count; 0 also when that cannot be told.
local function begun_before(result, rows)
  local c = result.counters
  if not (c.current and c.at) then return 0 end
  local known = ended_since(result.requests.by_slice, c.at)
  for _, row in ipairs(rows) do
    if row.started_unix_ms * MS <= c.at_unix then known = known + 1 end
  end
  return math.max(0, math.floor(c.current + 0.5) - known)
end

-- taken: another client had the events for a part of the window, so what the server counts beside them tells nothing of earlier requests.
local function count_notes(source, result, artifact, taken, notes)
  local total = result.counters.total
  local served = total and total.n > 1 and math.floor(total.max - total.min + 0.5) or 0
  if served > 0 and (artifact.started == 0 or served * thresholds.of("measurement").seen_share > artifact.started + 1) then
    notes[#notes + 1] = ("RequestsMissing: the server counted %d requests, the events of %d were seen: another diagnostic session over "
      .. "DiagnosticSource took the others, or they were lost."):format(served, artifact.started)
  elseif artifact.started == 0 and source.process and not taken then
    notes[#notes + 1] = total and total.n > 0
      and "NothingStarted: no request began in the window. One that hangs since before it cannot be listed: its start is not told again."
      or "NoAspNetCore: neither a request nor a count of requests came: the process is no ASP.NET Core server, or it stands still."
  end
  local before = source.process and not taken and begun_before(result, artifact.rows) or 0
  if before > 0 then
    notes[#notes + 1] = ("BegunBefore: the server counts %d requests in flight that began before this window; which ones is not told. See "
      .. "inspect_process(view=\"requests-now\") for what its threads do, or open a window before the next stall."):format(before)
  end
end

local function pair_notes(pair, artifact, notes, lost)
  if pair.unmatched > 0 then
    notes[#notes + 1] = ("EndedOnly: %d more requests ended in the window that had begun before it."):format(pair.unmatched)
  end
  if pair.replaced > 0 then
    notes[#notes + 1] = ("Replaced: %d requests began under the id of one that had no end; the earlier ones are not listed.")
      :format(pair.replaced)
  end
  if pair.dropped > 0 then
    notes[#notes + 1] = ("RequestLimit: %d requests were not followed: too many in flight at once."):format(pair.dropped)
  end
  if artifact.in_flight > #artifact.rows then
    notes[#notes + 1] = ("RowLimit: the oldest %d of %d requests in flight are told one by one.")
      :format(#artifact.rows, artifact.in_flight)
  end
  if (lost or 0) > 0 then
    notes[#notes + 1] = "LossInFlight: a request whose end was lost is listed as if it were in flight."
  end
end

-- Which of the two told of requests.
local function told_by(result)
  if result.started == 0 and result.requests.unmatched == 0 and result.served_started > 0 then
    return result.served, result.served_started, true
  end
  return result.requests, result.started, false
end

--- The artifact of a run.
---@param result table            of probe.run
---@param window MeasuredWindow
---@param source CollectorSource
---@param threshold_ms number
---@param bridge_window BridgeWindow
---@return RequestsArtifact
function M.new(result, window, source, threshold_ms, bridge_window)
  local pair, started, by_server = told_by(result)
  local end_unix_ns = (window.started_unix_ms + window.duration_ms) * MS
  local rows, long = {}, 0
  for i, row in ipairs(pair.open_rows) do
    rows[i] = row_of(row, end_unix_ns, threshold_ms)
    if rows[i].long then long = long + 1 end
  end
  local artifact = {
    process_id = window.process_id, started_unix_ms = window.started_unix_ms, duration_ms = window.duration_ms, started = started,
    completed = pair.pairs, in_flight = pair.open, rows = rows, threshold_ms = threshold_ms, long_running = long,
    oldest_ms = rows[1] and rows[1].elapsed_ms or nil, cost = window.cost, notes = { table.unpack(window.notes) },
  }
  local notes = artifact.notes
  if by_server then
    notes[#notes + 1] = "FromKestrel: the recording has no request activities; these are Kestrel's own events, which have no trace ids."
  end
  count_notes(source, result, artifact, source.process and bridge.taken(bridge_window, result.settings), notes)
  pair_notes(pair, artifact, notes, window.lost)
  if source.process then bridge.notes(notes, bridge_window, result.settings) end
  return artifact
end

return M
