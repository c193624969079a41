-- SPDX-License-Identifier: MIT
-- What to call after a window of requests.
local hint_rule = require("lunette.hint_rule")

local STUCK <const> = { { field = "long_running", above = 0 } }

return hint_rule {
  handle = "in-flight-requests", order = 100,
  hints = {
    {
      when = STUCK, live = true, tool = "inspect_process", arguments = { view = "requests-now" }, priority = "high",
      reason = "Requests are stuck: see what line their threads stand at.",
    },
    {
      when = STUCK, live = true, tool = "collect_events", arguments = { kind = "threadpool", durationSeconds = 10 },
      reason = "Stuck requests often wait for a pool thread: see whether the pool starves.",
    },
    {
      when = STUCK, live = true, tool = "collect_events", arguments = { kind = "networking", durationSeconds = 10 },
      reason = "Or for a call to somebody else.",
    },
    {
      when = STUCK, tool = "query_snapshot", arguments = { view = "longRunning", topN = 50 },
      reason = "See those above the threshold alone.",
    },
    {
      when = { { field = "long_running", equals = 0 } }, live = true, tool = "collect_events",
      arguments = { kind = "kestrel", durationSeconds = 10 },
      reason = "Nothing is stuck: see how long requests take and whether they queue.",
    },
    { tool = "query_snapshot", arguments = { view = "requests", topN = 50 }, reason = "See all requests in flight, oldest first." },
  },
}
