-- SPDX-License-Identifier: MIT
-- What to call after a window of outgoing requests.
local hint_rule = require("lunette.hint_rule")

return hint_rule {
  handle = "http-phases-snapshot", order = 100,
  hints = {
    {
      when = { { field = "failed", above = 0 } }, tool = "query_snapshot", arguments = { view = "failures", topN = 20 }, priority = "high",
      reason = "See which requests failed, where and why.",
    },
    {
      when = { { field = "queue_share", above = 0.3 } }, -- of the time of all requests
      tool = "collect_events", arguments = { kind = "networking" }, priority = "high",
      reason = "Requests wait for a connection: see the pool's times and counters.",
    },
    {
      when = { { field = "ended", above = 0 } }, tool = "query_snapshot", arguments = { view = "slowest", topN = 20 },
      reason = "See the slowest requests with all their phases.",
    },
    {
      when = { { field = "redirected", above = 0 } }, tool = "query_snapshot", arguments = { view = "redirects", topN = 20 },
      reason = "See what redirects cost.",
    },
    {
      when = { { field = "n_in_flight", above = 0 } }, tool = "query_snapshot", arguments = { view = "inFlight", topN = 20 },
      reason = "See the requests that had not ended.",
    },
    {
      when = { { field = "hosts", count = true, above = 1 } }, tool = "query_snapshot", arguments = { view = "byHost", topN = 20 },
      reason = "Compare the hosts.",
    },
    {
      when = { { field = "started", equals = 0 } }, tool = "collect_events", arguments = { kind = "networking" },
      reason = "No request began: see whether there is any traffic.",
    },
  },
}
