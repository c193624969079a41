-- SPDX-License-Identifier: MIT
-- What to call after a window of networking.
local hint_rule = require("lunette.hint_rule")

return hint_rule {
  handle = "networking-snapshot", order = 100,
  hints = {
    {
      when = { { field = "queue.time.p95", above = 50 } }, -- ms from which waiting for a connection is worth a look
      tool = "query_snapshot", arguments = { view = "queue" }, priority = "high", reason = "Requests wait for a connection of the pool.",
    },
    {
      when = { { field = "http.failed", above = 0 } }, tool = "collect_events", arguments = { kind = "http-phases" }, priority = "high",
      reason = "Requests fail: see in which phase, and why.",
    },
    {
      when = { { field = "operations", count = true, above = 0 } }, tool = "query_snapshot",
      arguments = { view = "byOperation", topN = 20 }, reason = "See the requests by scheme, host and port.",
    },
    {
      when = { { field = "tls.failed", above = 0 } }, tool = "query_snapshot", arguments = { view = "tls" },
      reason = "TLS handshakes fail.",
    },
    {
      when = { { field = "dns.failed", above = 0 } }, tool = "query_snapshot", arguments = { view = "dns" },
      reason = "Lookups of names fail.",
    },
    {
      when = { { field = "http.failed", equals = 0 }, { field = "http.started", above = 0 } }, tool = "collect_events",
      arguments = { kind = "http-phases" }, reason = "See where the time of the requests goes.",
    },
    {
      when = { { field = "http.started", equals = 0 } }, tool = "query_snapshot", arguments = { view = "summary" },
      reason = "No request began: see what else there was, and the counters.",
    },
  },
}
