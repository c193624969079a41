-- SPDX-License-Identifier: MIT
-- What to call after a window of a web server.
local hint_rule = require("lunette.hint_rule")

local QUEUED <const> = { { any = { { field = "peaks.connection", above = 0 }, { field = "peaks.request", above = 0 } } } }

return hint_rule {
  handle = "kestrel-snapshot", order = 100,
  hints = {
    {
      when = QUEUED, tool = "query_snapshot", arguments = { view = "queues" }, priority = "high",
      reason = "Connections or requests had to queue: see when.",
    },
    {
      when = QUEUED, live = true, tool = "collect_events", arguments = { kind = "threadpool", durationSeconds = 10 },
      reason = "What queues waits for a pool thread: see whether the pool starves.",
    },
    {
      when = { { field = "tls.failed", above = 0 } }, tool = "query_snapshot", arguments = { view = "tls" },
      reason = "TLS handshakes failed: see how many, and with which protocols others succeed.",
    },
    {
      when = { { field = "requests.time.p95", above = 500 } }, live = true, tool = "collect_events",
      arguments = { kind = "requests", durationSeconds = 10 }, reason = "Requests are slow: see which of them hang right now.",
    },
    {
      tool = "query_snapshot", arguments = { view = "byOperation", topN = 25 }, reason = "See requests by method, path and version.",
    },
    {
      when = { { field = "options", measured = true } }, tool = "query_snapshot", arguments = { view = "config" }, priority = "low",
      reason = "See the server's limits, endpoints and protocols.",
    },
  },
}
