-- SPDX-License-Identifier: MIT
-- Counters that the runtime and ASP.NET Core are known to publish (.NET 8 to 10, as recorded): a rule over another name of theirs would
-- never fire, and nobody would know why.
return {
  ["System.Runtime"] = {
    "active-timer-count", "alloc-rate", "assembly-count", "cpu-usage", "exception-count", "gc-committed", "gc-fragmentation",
    "gc-heap-size", "gen-0-gc-budget", "gen-0-gc-count", "gen-0-size", "gen-1-gc-count", "gen-1-size", "gen-2-gc-count", "gen-2-size",
    "il-bytes-jitted", "loh-size", "methods-jitted-count", "monitor-lock-contention-count", "poh-size",
    "threadpool-completed-items-count", "threadpool-queue-length", "threadpool-thread-count", "time-in-gc", "time-in-jit",
    "total-pause-time-by-gc", "working-set",
  },
  ["Microsoft.AspNetCore.Hosting"] = { "current-requests", "failed-requests", "requests-per-second", "total-requests" },
  ["Microsoft-AspNetCore-Server-Kestrel"] = {
    "connection-queue-length", "connections-per-second", "current-connections", "current-tls-handshakes", "current-upgraded-requests",
    "failed-tls-handshakes", "request-queue-length", "tls-handshakes-per-second", "total-connections", "total-tls-handshakes",
  },
}
