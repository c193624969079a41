-- SPDX-License-Identifier: MIT
-- What of the networking EventSources is kept: counts, times of requests, lookups and handshakes paired by activity id, and the counters.
local probe = require("lunette.probe")

local M = {}

M.HTTP, M.DNS, M.TLS, M.SOCKETS = "System.Net.Http", "System.Net.NameResolution", "System.Net.Security", "System.Net.Sockets"
M.TPL = "System.Threading.Tasks.TplEventSource"
M.MAX_OPERATIONS = 500
M.PERCENTILES = { 50, 95 }

local ACTIVITY_IDS <const> = 0x80   -- of TPL: ids flow with tasks, so that a start finds its stop
local ORDINARY <const> = 0x2        -- any keyword but 1, which has the whole stack trace of each failed request
local LEVEL <const> = 4
local FAILED <const> = "@id == 3"   -- RequestFailed, ResolutionFailed, HandshakeFailed: before the stop
local MAX_COUNTERS <const> = 64

--- The sources of the four kinds of events, and the activity ids. With an interval: their counters, too.
---@param interval_s integer?
---@return table[]
function M.providers(interval_s)
  local list = {}
  for i, name in ipairs { M.HTTP, M.DNS, M.TLS, M.SOCKETS } do
    list[i] = {
      name = name, keywords = ORDINARY, level = LEVEL, args = interval_s and ("EventCounterIntervalSec=%d"):format(interval_s) or nil,
    }
  end
  list[#list + 1] = { name = M.TPL, keywords = ACTIVITY_IDS, level = LEVEL }
  return list
end

--- The events by short name.
function M.events()
  return {
    request = M.HTTP .. "/Request/Start", request_stop = M.HTTP .. "/Request/Stop", request_failed = M.HTTP .. "/RequestFailed",
    left_queue = M.HTTP .. "/RequestLeftQueue", connected = M.HTTP .. "/ConnectionEstablished", closed = M.HTTP .. "/ConnectionClosed",
    lookup = M.DNS .. "/Resolution/Start", lookup_stop = M.DNS .. "/Resolution/Stop", lookup_failed = M.DNS .. "/ResolutionFailed",
    handshake = M.TLS .. "/Handshake/Start", handshake_stop = M.TLS .. "/Handshake/Stop", handshake_failed = M.TLS .. "/HandshakeFailed",
    connect = M.SOCKETS .. "/Connect/Start", connect_stop = M.SOCKETS .. "/Connect/Stop", connect_failed = M.SOCKETS .. "/ConnectFailed",
  }
end

local function authority(prefix) return { scheme = prefix .. "scheme", host = prefix .. "host", port = prefix .. "port" } end

local function groups(prefix, keep, on)
  return probe.group { by = authority(prefix), top = M.MAX_OPERATIONS, keep = keep, on = on }
end

local function times() return probe.quantiles("@duration", M.PERCENTILES) end

-- A start meets its failure or its stop, whichever comes first; those that failed are counted.
local function failures(start, failed, stop, keep)
  return probe.pair {
    start = start, stop = { failed, stop }, by = "@activity", where = FAILED, keep = keep or { n = probe.count() },
  }
end

local function http(keep)
  keep.http = probe.pair {
    start = "request", stop = "request_stop", by = "@activity",
    keep = { time = times(), by = groups("start.", { time = times() }) },
  }
  keep.http_failed = failures("request", "request_failed", "request_stop", { by = groups("start.", { n = probe.count() }) })
  keep.started_by = groups("", { n = probe.count() }, "request")
  keep.status_errors = probe.count { on = "request_stop", where = "statusCode >= 400" }
  keep.statuses = probe.count { on = "request_stop", where = "statusCode != null" }
  keep.queue = probe.quantiles("timeOnQueueMilliseconds", M.PERCENTILES, { on = "left_queue", where = "timeOnQueueMilliseconds >= 0" })
end

-- Of handshakes only those as a client: a server's are no outgoing traffic. A stop tells by its start which it is.
local function tls(keep)
  keep.tls = probe.pair {
    start = "handshake", stop = "handshake_stop", by = "@activity", where = "start.isServer == false",
    keep = { time = times(), protocols = probe.group { by = { protocol = "protocol" }, keep = { n = probe.count() } } },
  }
  keep.tls_served = probe.pair {
    start = "handshake", stop = "handshake_stop", by = "@activity", where = "start.isServer == true", keep = { n = probe.count() },
  }
  keep.tls_failed = probe.pair {
    start = "handshake", stop = { "handshake_failed", "handshake_stop" }, by = "@activity",
    where = FAILED .. " and start.isServer == false", keep = { n = probe.count() },
  }
  keep.client_handshakes = probe.count { on = "handshake", where = "isServer == false" }
  keep.failed_client_handshakes = probe.count { on = "handshake_failed", where = "isServer == false" }
end

local function counters(keep)
  local function field(name) return ("coalesce(Payload.%s, %s)"):format(name, name) end
  keep.counters = probe.group {
    by = { provider = "@provider", name = field("Name") }, on = "counter", max = MAX_COUNTERS, top = MAX_COUNTERS,
    keep = {
      display = probe.value(field("DisplayName")), unit = probe.value(field("DisplayUnits")),
      -- an EventCounter that nobody wrote to in an interval measured nothing there
      mean = probe.value(field("Mean"), { where = field("Count") .. " > 0" }),
      rate = probe.value(("%s / %s"):format(field("Increment"), field("IntervalSec")), { where = field("IntervalSec") .. " > 0" }),
    },
  }
end

--- The program of a window.
---@param interval_s integer
function M.new(interval_s)
  local events = M.events()
  events.counter = {}
  for i, name in ipairs { M.HTTP, M.DNS, M.TLS, M.SOCKETS } do events.counter[i] = name .. "/EventCounters" end
  local keep = {
    dns = probe.pair { start = "lookup", stop = "lookup_stop", by = "@activity", keep = { time = times() } },
    dns_failed = failures("lookup", "lookup_failed", "lookup_stop"),
  }
  for _, name in ipairs {
    "request", "request_stop", "request_failed", "left_queue", "connected", "closed", "lookup", "lookup_stop", "lookup_failed",
    "handshake_stop", "connect", "connect_stop", "connect_failed",
  } do
    keep["n_" .. name] = probe.count { on = name }
  end
  http(keep)
  tls(keep)
  counters(keep)
  return probe.program { name = "networking", providers = M.providers(interval_s), events = events, keep = keep }
end

return M
