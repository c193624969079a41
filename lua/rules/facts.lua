-- SPDX-License-Identifier: MIT
-- The names by which the rules know the numbers of a counter window, and how each is made. What was not measured has no value.
local rule = require("lunette.rule")

local RUNTIME <const> = "System.Runtime/"

return rule {
  name = "facts", note = "Names for the numbers of a counter window.",
  facts = {
    cpu = { counter = RUNTIME .. "cpu-usage", stat = "mean", unit = "%" }, -- of all processors
    processors = { field = "processor_count" },
    -- processors' worth of CPU that the process uses
    cores = { from = { "cpu", "processors" }, unit = "cores", of = function(cpu, processors) return cpu / 100 * processors end },
    gc_time_raw = { counter = RUNTIME .. "time-in-gc", stat = "mean", unit = "%" },
    gc_count = { counter = RUNTIME .. "gen-0-gc-count", stat = "total" },
    -- without a collection in the window the counter repeats what an old one took
    gc_time = {
      from = { "gc_time_raw", "gc_count" }, partial = true, unit = "%",
      of = function(percent, collections) return collections ~= 0 and percent or nil end,
    },
    queue = { counter = RUNTIME .. "threadpool-queue-length", stat = "last", unit = "items" },
    pool_threads_added = { counter = RUNTIME .. "threadpool-thread-count", stat = "growth", unit = "threads" },
    contentions = { counter = RUNTIME .. "monitor-lock-contention-count", stat = "mean" }, -- an interval
    alloc_bytes = { counter = RUNTIME .. "alloc-rate", stat = "per_second", unit = "B/s" },
    gen2 = { counter = RUNTIME .. "gen-2-gc-count", stat = "mean" }, -- an interval
    heap_mb = { counter = RUNTIME .. "gc-heap-size", stat = "last", unit = "MB" },
    exceptions = { counter = RUNTIME .. "exception-count", stat = "mean" }, -- an interval
    -- the slowest of all request duration series
    p95_s = {
      meter = "*/http.server.request.duration", stat = "p95", pick = "max", above_zero = true, ask = "Microsoft.AspNetCore.Hosting",
      unit = "s",
    },
    p95_ms = { from = { "p95_s" }, as = "sum", scale = 1000, round = true, unit = "ms" },
    heap = { counter = RUNTIME .. "gc-heap-size", stat = "trend" },
    loh = { counter = RUNTIME .. "loh-size", stat = "trend" },
    working_set = { counter = RUNTIME .. "working-set", stat = "trend" },
    heap_growth_mb = { from = { "heap" }, of = function(trend) return trend.deltaMb end, unit = "MB" },
    heap_falls = { from = { "heap" }, of = function(trend) return trend.falls end },
    -- the longest time without a sign of the runtime's counters, when it is a finding
    silent_s = { field = "silent_s", unit = "s" },
  },
}
