-- SPDX-License-Identifier: MIT
-- What a web server did in a window, as the handle keeps it: counts, times, operations without secrets, queue lengths, options.
local declared = require("collectors.kestrel.program")
local json = require("lunette.json")
local numbers = require("lunette.numbers")
local paths = require("collectors.web_paths")
local redaction = require("lunette.redaction")
local sys = require("lunette.sys")
local untrusted = require("collectors.untrusted")

local M = {}

local MAX_NAME <const> = 128 -- bytes of what a counter is called
local NS_PER_MS <const> = 1e6

---@class ServerTimes   in milliseconds; nil: nothing was measured
---@field n integer
---@field p50 number?
---@field p95 number?
---@field max number?

---@class KestrelOperation
---@field method string
---@field path string
---@field version string
---@field n integer
---@field p50 number
---@field p95 number
---@field max number
---@field total_ms number

---@class KestrelArtifact
---@field process_id integer
---@field started_unix_ms integer
---@field duration_ms integer
---@field connections { started: integer, stopped: integer, rejected: integer, time: ServerTimes }
---@field requests { started: integer, stopped: integer, time: ServerTimes, total_ms: number }
---@field tls { started: integer, stopped: integer, failed: integer, time: ServerTimes, protocols: string[] }
---@field operations KestrelOperation[]   most frequent first
---@field counters table[]
---@field points { unix_ms: integer, connection: number?, request: number? }[]
---@field peaks { connection: number, request: number }
---@field options string?                 JSON
---@field notes string[]
---@field cost table?

local function times(q)
  if q.n == 0 then return { n = 0 } end
  return { n = q.n, p50 = q.p50 / NS_PER_MS, p95 = q.p95 / NS_PER_MS, max = q.max / NS_PER_MS }
end

-- Two paths that differ in what was taken out are one operation: the counts add up, of the times the larger are told.
local function merge(into, op)
  into.n, into.total_ms, into.merged = into.n + op.n, into.total_ms + op.total_ms, true
  for _, name in ipairs { "p50", "p95", "max" } do into[name] = math.max(into[name], op[name]) end
end

local function operations(rows)
  local by_key, list, merged = {}, {}, 0
  for _, row in ipairs(rows) do
    local t = times(row.time)
    local op = {
      method = paths.method(row.method), path = paths.path(row.path), version = paths.method(row.version), n = t.n, p50 = t.p50,
      p95 = t.p95, max = t.max, total_ms = (row.total or 0) / NS_PER_MS,
    }
    local key = table.concat({ op.method, op.path, op.version }, "\0")
    if by_key[key] then
      if not by_key[key].merged then merged = merged + 1 end
      merge(by_key[key], op)
    else
      by_key[key], list[#list + 1] = op, op
    end
  end
  table.sort(list, function(a, b)
    if a.n ~= b.n then return a.n > b.n end
    if a.path ~= b.path then return a.path < b.path end
    if a.method ~= b.method then return a.method < b.method end
    return a.version < b.version
  end)
  return list, merged
end

local function counters(rows)
  local list = {}
  for _, row in ipairs(rows) do
    local value = numbers.finite(row.mean or row.rate)
    if type(row.name) == "string" and value then
      list[#list + 1] = {
        name = untrusted.clean(row.name, MAX_NAME), display = row.display ~= "" and untrusted.clean(row.display, MAX_NAME) or nil,
        unit = row.unit ~= "" and untrusted.clean(row.unit, MAX_NAME) or nil, value = value,
      }
    end
  end
  table.sort(list, function(a, b) return a.name < b.name end)
  return list
end

-- The two readings of a queue come one behind the other at each tick: a name that comes again begins the next point.
local function queue_points(rows)
  local points, peaks = {}, { connection = 0, request = 0 }
  local point
  for _, row in ipairs(rows) do
    local which = row.name == declared.QUEUES.connection and "connection" or "request"
    local value = numbers.finite(row.value)
    if value then
      if not point or point[which] then
        point = { unix_ms = row.at // 1000000 }
        points[#points + 1] = point
      end
      point[which] = value
      peaks[which] = math.max(peaks[which], value)
    end
  end
  return points, peaks
end

-- One server's options as they are, those of several as a list. Text of the target: without secrets.
local function options(rows)
  local list = {}
  for i, row in ipairs(rows) do list[i] = redaction.redact(sys.utf8_sanitize(row.json or "")) end
  if #list == 0 then return nil, false end
  local text = #list == 1 and list[1] or "[" .. table.concat(list, ",") .. "]"
  return text, json.decode(text) == nil
end

local function protocols(result)
  local names = {}
  for _, row in ipairs(result.tls_protocols.rows) do names[#names + 1] = row.protocol and paths.method(row.protocol) end
  table.sort(names)
  return names
end

local function pair_notes(pair, what, notes)
  if pair.unmatched > 0 then
    notes[#notes + 1] = ("EndedOnly: %d %s ended in the window that had begun before it; they are in no time."):format(pair.unmatched, what)
  end
  if pair.dropped > 0 then
    notes[#notes + 1] = ("PairLimit: %d %s were not timed: too many at once."):format(pair.dropped, what)
  end
end

local function group_notes(result, merged, notes)
  local group = result.requests.operations
  local left_out = group.other and group.other.time.n or 0
  if left_out > 0 or group.evicted > 0 then
    notes[#notes + 1] = ("OperationLimit: %d operations are told apart; %d requests are of others (paths with ids in them?).")
      :format(declared.MAX_OPERATIONS, left_out)
  end
  if merged > 0 then
    notes[#notes + 1] = ("Merged: %d operations are of several paths that differ only in what was taken out of them; their times are the "
      .. "largest of those."):format(merged)
  end
end

local function notes_of(result, source, artifact, merged, broken)
  local notes = { table.unpack(artifact.notes) }
  local live = source.process ~= nil
  local traffic = artifact.connections.started + artifact.connections.stopped + artifact.connections.rejected
    + artifact.requests.started + artifact.requests.stopped + artifact.tls.started
  if traffic == 0 and live then
    notes[#notes + 1] = #artifact.counters > 0
      and "NoTraffic: no connection, request or handshake came in the window; times of zero were not measured. Open it before the load."
      or "ProviderSilent: nothing came from Kestrel: the process runs no Kestrel server, or it stands still."
  end
  if live and not artifact.options and #artifact.counters > 0 then
    notes[#notes + 1] = "NoConfiguration: the server did not tell its options when the window opened."
  end
  if broken then notes[#notes + 1] = "ConfigurationCut: the options were too long, or redaction broke their JSON." end
  if live and traffic > 0 and #artifact.counters == 0 then
    notes[#notes + 1] = "NoCounters: no counter came in the window, so that the queue lengths are not known; a longer window has them."
  end
  local tls = artifact.tls
  if tls.started > 0 and tls.time.n == 0 then
    notes[#notes + 1] = "NoHandshakeTimes: handshakes began, but no end of one was told; their times of zero were not measured. Kestrel "
      .. "tells it while activity ids flow (keyword 0x80 of System.Threading.Tasks.TplEventSource)."
  end
  pair_notes(result.connections, "connections", notes)
  pair_notes(result.requests, "requests", notes)
  group_notes(result, merged, notes)
  return notes
end

--- The artifact of a run.
---@param result table          of probe.run
---@param window MeasuredWindow
---@param source CollectorSource
---@return KestrelArtifact
function M.new(result, window, source)
  local ops, merged = operations(result.requests.operations.rows)
  local points, peaks = queue_points(result.queues.rows)
  local config, broken = options(result.options.rows)
  local artifact = {
    process_id = window.process_id, started_unix_ms = window.started_unix_ms, duration_ms = window.duration_ms,
    connections = {
      started = result.n_connection, stopped = result.n_connection_stop, rejected = result.n_rejected,
      time = times(result.connections.time),
    },
    requests = {
      started = result.n_request, stopped = result.n_request_stop, time = times(result.requests.time),
      total_ms = (result.requests.total or 0) / NS_PER_MS,
    },
    tls = {
      started = result.n_tls, stopped = result.n_tls_stop, failed = result.n_tls_failed, time = times(result.tls.time),
      protocols = protocols(result),
    },
    operations = ops, counters = counters(result.counters.rows), points = points, peaks = peaks,
    options = config, cost = window.cost, notes = window.notes,
  }
  artifact.notes = notes_of(result, source, artifact, merged, broken)
  return artifact
end

return M
