-- SPDX-License-Identifier: MIT
-- What to call after a window of collections. Pauses are judged by the suspension stream, never by the time that collections took.
local hint_rule = require("lunette.hint_rule")

local LONG_PAUSE_MS <const> = 100
local HTTP <const> = { kind = "event_source", providerName = "System.Net.Http", durationSeconds = 10 }

return hint_rule {
  handle = "gc-events", order = 100,
  hints = {
    {
      when = {
        { field = "suspensions.pause.max_ns", scale = 1e-6, above = LONG_PAUSE_MS },
        { field = "suspensions.status", is_not = "unavailable" },
      },
      tool = "collect_process_dump", arguments = { dumpType = "WithHeap" }, priority = "high",
      reason = "A pause of {value:%.0f} ms: see what the heap holds.",
    },
    {
      when = { { field = "suspensions.status", is_not = "unavailable" } }, otherwise = true, tool = "collect_events", arguments = HTTP,
      reason = ("No pause above %d ms stands out: see whether the time goes to outbound HTTP."):format(LONG_PAUSE_MS),
    },
    {
      when = { { field = "suspensions.status", equals = "unavailable" } }, tool = "collect_events", arguments = HTTP,
      reason = "How long the pauses were is not known; see whether the time goes to outbound HTTP.",
    },
    { tool = "query_snapshot", arguments = { view = "pauseHistogram" }, reason = "See how long the pauses were." },
    {
      when = { { field = "heap.rows", count = true, above = 1 } }, tool = "query_snapshot", arguments = { view = "heap-stats" },
      priority = "low", reason = "See how the heap moved from collection to collection.",
    },
  },
}
