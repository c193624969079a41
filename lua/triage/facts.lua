-- SPDX-License-Identifier: MIT
-- What a triage judges by: the numbers of one counter window, under the names that the rules use. What was not measured is nil.
local series = require("collectors.counters.series")
local snapshot = require("collectors.counters.snapshot")

local M = {}

local RUNTIME <const> = "System.Runtime"
local MB <const> = 1000000.0

--- TriageTrend: first to last of one metric, and the same in MB.
local function trend_of(c)
  if not c or c.series.n < 2 then return nil end
  local first, last = c.series.first, c.series.last
  local to_mb = c.unit == "B" and MB or 1
  return {
    first = first, last = last, delta = last - first, relativeChange = first ~= 0 and (last - first) / math.abs(first) or nil,
    deltaMb = (last - first) / to_mb, falls = c.series.falls,
  }
end

--- The slowest p95 of all request duration series, in seconds.
local function request_p95(artifact)
  local worst
  for _, m in ipairs(artifact.meters) do
    local p95 = m.instrument == snapshot.REQUEST_DURATION and m.histogram and m.histogram.p95
    if p95 and p95 > 0 and (not worst or p95 > worst) then worst = p95 end
  end
  return worst
end

---@class TriageFacts
---@field cpu number?            percent of all processors, mean
---@field processors integer?
---@field cores number?          processors' worth of CPU that the process uses
---@field gc_time number?        percent, mean; nil when no collection ran in the window (the counter then repeats an old one)
---@field gc_time_raw number?    as published
---@field gc_count number?       collections in the window
---@field queue number?          work items, last
---@field pool_threads_added number?
---@field contentions number?    an interval, mean
---@field alloc_bytes number?    a second, mean
---@field gen2 number?           an interval, mean
---@field heap_mb number?        last
---@field exceptions number?     an interval, mean
---@field p95_s number?          slowest series
---@field p95_ms number?
---@field heap table?            trends
---@field loh table?
---@field working_set table?
---@field silent_s number?       longest time without a sign of the runtime's counters, when it is a finding

--- Facts of a window.
---@param artifact CounterArtifact
---@return TriageFacts
function M.of(artifact)
  local function find(name) return snapshot.find(artifact, RUNTIME, name) end
  local function last(name) local c = find(name) return c and c.series.last end
  local function mean(name) local c = find(name) return c and series.mean(c.series) end
  local function total(name) local c = find(name) return c and c.series.sum end
  local f = {
    cpu = mean("cpu-usage"), processors = artifact.processor_count, gc_time_raw = mean("time-in-gc"), gc_count = total("gen-0-gc-count"),
    queue = last("threadpool-queue-length"), contentions = mean("monitor-lock-contention-count"), gen2 = mean("gen-2-gc-count"),
    heap_mb = last("gc-heap-size"), exceptions = mean("exception-count"), p95_s = request_p95(artifact),
    heap = trend_of(find("gc-heap-size")), loh = trend_of(find("loh-size")), working_set = trend_of(find("working-set")),
    silent_s = artifact.silent_s,
  }
  if f.cpu and f.processors then f.cores = f.cpu / 100 * f.processors end
  if f.gc_time_raw and f.gc_count ~= 0 then f.gc_time = f.gc_time_raw end
  local alloc = find("alloc-rate")
  if alloc and alloc.interval_s and alloc.interval_s > 0 then f.alloc_bytes = series.mean(alloc.series) / alloc.interval_s end
  local threads = find("threadpool-thread-count")
  if threads and threads.series.n >= 2 then f.pool_threads_added = threads.series.last - threads.series.first end
  f.p95_ms = f.p95_s and math.floor(f.p95_s * 1000 + 0.5)
  f.measured = f.cpu ~= nil or f.queue ~= nil or f.heap_mb ~= nil
  return f
end

local TREND_ORDER <const> = { __order = { "first", "last", "delta", "relativeChange", "deltaMb" } }
local function trend_row(t)
  if not t then return nil end
  return setmetatable({
    first = t.first, last = t.last, delta = t.delta, relativeChange = t.relativeChange, deltaMb = t.deltaMb,
  }, TREND_ORDER)
end

--- TriageEvidence: the raw numbers, for people who want to judge on their own.
---@param f TriageFacts
function M.evidence(f)
  return {
    cpuUsage = f.cpu, timeInGc = f.gc_time_raw, threadPoolQueueLength = f.queue, monitorLockContentionCount = f.contentions,
    allocRate = f.alloc_bytes, gen2GcCount = f.gen2, gcHeapSize = f.heap_mb, exceptionCount = f.exceptions, requestDurationP95 = f.p95_s,
    logicalProcessorCount = f.processors, effectiveCoreUsage = f.cores, cpuTopologyStatus = f.processors and "known" or "unknown",
    gcHeapSizeTrend = trend_row(f.heap), lohSizeTrend = trend_row(f.loh), workingSetTrend = trend_row(f.working_set),
  }
end

return M
