-- SPDX-License-Identifier: MIT
-- What the requests collector asks of the target and of the engine: the start and the stop of each ASP.NET Core request by the activity
-- that the server makes of it, and the server's own count of requests, which also knows those that began before.
local bridge = require("collectors.diagnostic_source")
local probe = require("lunette.probe")

local M = {}

M.HOSTING = "Microsoft.AspNetCore.Hosting"
M.KESTREL = "Microsoft-AspNetCore-Server-Kestrel"
M.MAX_ROWS = 10000 -- of requests in flight that are told one by one
M.TICK_S = 1       -- how often the server's counters come
M.COUNTED = "total-requests"
M.CURRENT = "current-requests"
local LISTENER <const> = "Microsoft.AspNetCore"
local REQUEST <const> = "Microsoft.AspNetCore.Hosting.HttpRequestIn"
local COUNTERS_ONLY <const> = 1 -- level: counters are always sent, the events of each request are not
local MAX_SLICES <const> = 36000

-- The first line sends nothing; without it the server asks nobody before it makes an activity, and makes none.
M.LINES = {
  ("%s/%s:-"):format(LISTENER, REQUEST),
  ("%s/%s.Start:-Request.Method;Request.Path;ActivityId=*Activity.Id"):format(LISTENER, REQUEST),
  ("%s/%s.Stop:-ActivityId=*Activity.Id"):format(LISTENER, REQUEST),
}

local ID <const> = "coalesce(Arguments.ActivityId, Arguments.SpanId)"

-- One without an id was asked for by somebody else, who wants its name only.
local function when(suffix)
  return ('SourceName == "%s" and EventName == "%s.%s" and %s != null'):format(LISTENER, REQUEST, suffix, ID)
end

-- One kind of event is both: a start has no key as a stop, and a stop none as a start.
local START_KEY <const> = ("if(%s, %s, null)"):format(when("Start"), ID)
local STOP_KEY <const> = ("if(%s, %s, null)"):format(when("Stop"), ID)

local function counter(name)
  return ('coalesce(Payload.Name, Name) == "%s"'):format(name)
end

M.program = probe.program {
  name = "requests",
  providers = {
    bridge.provider(M.LINES),
    { name = M.HOSTING, level = COUNTERS_ONLY, args = ("EventCounterIntervalSec=%d"):format(M.TICK_S) },
  },
  events = {
    request = bridge.EVENTS, message = bridge.MESSAGE, counter = M.HOSTING .. "/EventCounters",
    served = M.KESTREL .. "/Request/Start", served_stop = M.KESTREL .. "/Request/Stop",
  },
  keep = {
    started = probe.count { on = "request", where = when("Start") },
    stopped = probe.count { on = "request", where = when("Stop") },
    requests = probe.pair {
      start = "request", stop = "request", by = { start = START_KEY, stop = STOP_KEY }, top = M.MAX_ROWS,
      open = { at = "@unix", method = "Arguments.Method", path = "Arguments.Path", id = ID, thread = "@thread" },
      keep = { by_slice = probe.timeline { every = "100ms", max = MAX_SLICES, keep = { n = probe.count() } } },
    },
    -- of a recording that has no activities: the same requests as the web server tells of them
    served = probe.pair {
      start = "served", stop = "served_stop", by = { "connectionId", "requestId" }, top = M.MAX_ROWS,
      open = { at = "@unix", method = "method", path = "path", thread = "@thread" },
    },
    served_started = probe.count { on = "served" },
    counters = probe.filter {
      on = "counter",
      keep = {
        total = probe.stats("coalesce(Payload.Mean, Mean)", { where = counter(M.COUNTED) }),
        current = probe.value("coalesce(Payload.Mean, Mean)", { where = counter(M.CURRENT) }),
        at = probe.value("@time", { where = counter(M.CURRENT) }), at_unix = probe.value("@unix", { where = counter(M.CURRENT) }),
      },
    },
    settings = bridge.settings("message"),
  },
}

return M
