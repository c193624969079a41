-- SPDX-License-Identifier: MIT
-- What of Kestrel's events is kept: counts and times of connections, requests and handshakes, the queue lengths over time, the options.
local probe = require("lunette.probe")

local M = {}

M.KESTREL, M.TPL = "Microsoft-AspNetCore-Server-Kestrel", "System.Threading.Tasks.TplEventSource"
M.MAX_OPERATIONS = 1000   -- method, path and version, that are told apart
M.MAX_POINTS = 20000      -- readings of the two queues
M.MAX_SERVERS = 8         -- of which the options are kept
M.TEXT_MAX = 65536        -- the options are one text
M.QUEUES = { connection = "connection-queue-length", request = "request-queue-length" }
M.PERCENTILES = { 50, 95 }
local LEVEL <const> = 4
local ACTIVITY_IDS <const> = 0x80 -- of TPL: .NET 8 to 10 tell the end of a handshake only while ids flow with tasks
local MAX_COUNTERS <const> = 64

local function field(name) return ("coalesce(Payload.%s, %s)"):format(name, name) end

local function times() return probe.quantiles("@duration", M.PERCENTILES) end

local function handshakes(keep)
  keep.tls = probe.pair { start = "tls", stop = "tls_stop", by = "connectionId", keep = { time = times() } }
  keep.tls_protocols = probe.group {
    by = { protocol = "sslProtocols" }, on = "tls_stop", max = 64, where = 'sslProtocols != ""', keep = { n = probe.count() },
  }
end

--- The program of a window.
---@param interval_s integer
function M.new(interval_s)
  local name = field("Name")
  local keep = {
    connections = probe.pair { start = "connection", stop = "connection_stop", by = "connectionId", keep = { time = times() } },
    requests = probe.pair {
      start = "request", stop = "request_stop", by = { "connectionId", "requestId" },
      keep = {
        time = times(), total = probe.sum("@duration"),
        operations = probe.group {
          by = { method = "start.method", path = "start.path", version = "start.httpVersion" }, max = M.MAX_OPERATIONS,
          top = M.MAX_OPERATIONS, keep = { time = times(), total = probe.sum("@duration") },
        },
      },
    },
    options = probe.first(M.MAX_SERVERS, { id = "instanceId", json = "configuration" }, { on = "options" }),
    queues = probe.last(M.MAX_POINTS, { at = "@unix", name = name, value = field("Mean") }, {
      on = "counter", where = ('%s == "%s" or %s == "%s"'):format(name, M.QUEUES.connection, name, M.QUEUES.request),
    }),
    counters = probe.group {
      by = { name = name }, on = "counter", max = MAX_COUNTERS, top = MAX_COUNTERS,
      keep = {
        display = probe.value(field("DisplayName")), unit = probe.value(field("DisplayUnits")), mean = probe.value(field("Mean")),
        rate = probe.value(("%s / %s"):format(field("Increment"), field("IntervalSec")), { where = field("IntervalSec") .. " > 0" }),
      },
    },
  }
  for _, event in ipairs {
    "connection", "connection_stop", "rejected", "request", "request_stop", "tls", "tls_stop", "tls_failed",
  } do
    keep["n_" .. event] = probe.count { on = event }
  end
  handshakes(keep)
  return probe.program {
    name = "kestrel", text_max = M.TEXT_MAX,
    providers = {
      { name = M.KESTREL, level = LEVEL, args = ("EventCounterIntervalSec=%d"):format(interval_s) },
      { name = M.TPL, keywords = ACTIVITY_IDS, level = LEVEL },
    },
    events = {
      connection = M.KESTREL .. "/Connection/Start", connection_stop = M.KESTREL .. "/Connection/Stop",
      rejected = M.KESTREL .. "/ConnectionRejected",
      request = M.KESTREL .. "/Request/Start", request_stop = M.KESTREL .. "/Request/Stop",
      tls = M.KESTREL .. "/TlsHandshake/Start", tls_stop = M.KESTREL .. "/TlsHandshake/Stop",
      tls_failed = M.KESTREL .. "/TlsHandshakeFailed",
      options = M.KESTREL .. "/Configuration", counter = M.KESTREL .. "/EventCounters",
    },
    keep = keep,
  }
end

return M
