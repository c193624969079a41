-- SPDX-License-Identifier: MIT
-- What to call after a counter window: by the last values, all that match in this order. CPU is compared inclusively, the others strictly.
local hint_rule = require("lunette.hint_rule")

local RUNTIME <const> = "System.Runtime/"
local GC_TIME <const> = { counter = RUNTIME .. "time-in-gc", above = 15 }
local IDLE <const> = { { counter = RUNTIME .. "cpu-usage", below = 30 }, { counter = RUNTIME .. "threadpool-queue-length", above = 10 } }

return hint_rule {
  handle = "counters", order = 100, lead = true,
  hints = {
    {
      when = { { counter = RUNTIME .. "cpu-usage", at_least = 70 } },
      tool = "collect_sample", arguments = { kind = "cpu", durationSeconds = 10, topN = 25 },
      reason = "CPU usage is at {threshold} % or more: see which methods run.",
    },
    {
      when = { { counter = RUNTIME .. "threadpool-queue-length", above = 50 } },
      tool = "collect_events", arguments = { kind = "threadpool", durationSeconds = 10 },
      reason = "More than {threshold} work items wait for a pool thread: see how the pool grows and who queues.",
    },
    {
      when = { GC_TIME }, tool = "collect_events", arguments = { kind = "gc", durationSeconds = 10 },
      reason = "More than {threshold} % of time in GC: see the collections and their pauses.",
    },
    {
      when = { GC_TIME }, tool = "inspect_heap", arguments = { source = "live" },
      reason = "More than {threshold} % of time in GC: see what the heap holds.",
    },
    {
      when = {
        { counter = RUNTIME .. "alloc-rate", stat = "last_per_second", scale = 1e-6, above = 50 },
        { counter = RUNTIME .. "gen-2-gc-count", above = 0 },
      },
      tool = "collect_sample", arguments = { kind = "allocation", durationSeconds = 10 },
      reason = "Over {threshold} MB/s are allocated and Gen2 is collected: see who allocates.",
    },
    {
      when = { { counter = RUNTIME .. "monitor-lock-contention-count", above = 10 } },
      tool = "collect_events", arguments = { kind = "contention", durationSeconds = 10 },
      reason = "Monitors are contended: see where threads wait and for how long.",
    },
    {
      when = IDLE, tool = "collect_thread_snapshot",
      reason = "Little CPU with a ThreadPool queue is inconclusive: see what the threads do.",
    },
    {
      when = IDLE, tool = "collect_events", arguments = { kind = "activities", durationSeconds = 10 },
      reason = "Little CPU with a ThreadPool queue is inconclusive unless requests are slow in the same window: see the activities.",
    },
    {
      otherwise = true, tool = "collect_events", arguments = { kind = "gc", durationSeconds = 10 }, priority = "normal",
      reason = "No headline counter stands out: look at the garbage collector next.",
    },
    {
      tool = "query_snapshot", arguments = { view = "byProvider" }, priority = "low",
      reason = "See every counter of this window, by provider.",
    },
  },
}
