-- SPDX-License-Identifier: MIT
-- The threadpool collector: how many threads the pool had, why it changed their number, who queued work and how long it waited.
local lazy = require("lunette.lazy")
local artifacts = lazy("collectors.threadpool.artifact")
local collector = require("lunette.collector")
local measured = require("collectors.measured")
local numbers = require("lunette.numbers")
local probe = require("lunette.probe")
local snapshot = lazy("collectors.threadpool.snapshot")

local RUNTIME <const> = probe.RUNTIME
local FRAMEWORK <const> = "System.Diagnostics.Eventing.FrameworkEventSource"
local WORK_ITEMS <const> = "0x2"          -- of it: its ThreadPool keyword
local MAX_ADJUSTMENTS <const> = 2000
local MAX_STACKS <const>, TOP_STACKS <const> = 4096, 500

local function event(name) return RUNTIME .. "/" .. name end

local program <const> = probe.program {
  name = "threadpool",
  providers = {
    { name = RUNTIME, keywords = "Threading", level = 4 },
    { name = FRAMEWORK, keywords = WORK_ITEMS, level = 5 }, -- the runtime's own events of the queue ended with the native pool (6.0)
  },
  events = {
    worker = { event("ThreadPoolWorkerThread/Start"), event("ThreadPoolWorkerThread/Stop"), event("ThreadPoolWorkerThread/Wait") },
    iocp = {
      event("IOThreadCreation/Start"), event("IOThreadCreation/Stop"), event("IOThreadRetirement/Start"), event("IOThreadRetirement/Stop"),
    },
    adjustment = event("ThreadPoolWorkerThreadAdjustment/Adjustment"), limits = event("ThreadPoolMinMaxThreads"),
    enqueue = FRAMEWORK .. "/ThreadPoolEnqueueWork", dequeue = FRAMEWORK .. "/ThreadPoolDequeueWork",
  },
  let = { ms = "@duration / 1e6" },
  keep = {
    counts = probe.timeline {
      every = "1s", on = "worker", keep = { last = probe.value("ActiveWorkerThreadCount"), peak = probe.max("ActiveWorkerThreadCount") },
    },
    iocp_counts = probe.timeline {
      every = "1s", on = "iocp", keep = { last = probe.value("IOThreadCount"), peak = probe.max("IOThreadCount") },
    },
    adjustments = probe.last(MAX_ADJUSTMENTS,
      { at_ns = "@time", reason = "Reason", new_count = "NewWorkerThreadCount", throughput = "AverageThroughput" }, { on = "adjustment" }),
    n_adjustments = probe.count { on = "adjustment" },
    reasons = probe.group { by = "Reason", on = "adjustment", keep = { n = probe.count() } },
    limits = probe.last(1, {
      worker_min = "MinWorkerThreads", worker_max = "MaxWorkerThreads", iocp_min = "MinIOCompletionThreads",
      iocp_max = "MaxIOCompletionThreads",
    }, { on = "limits" }),
    enqueued = probe.count { on = "enqueue" }, dequeued = probe.count { on = "dequeue" },
    origins = probe.group {
      by = { stack = "@stack" }, on = "enqueue", max = MAX_STACKS, top = TOP_STACKS, keep = { n = probe.count() },
    },
    waits = probe.pair {
      start = "enqueue", stop = "dequeue", by = "workID", keep = { ms = probe.quantiles("ms", { 50, 95 }) },
    },
  },
}

local function collect(ctx, source, args)
  local result, err = probe.run(ctx, program, {
    process = source.process, path = source.path, duration_ms = args.durationSeconds * 1000, save_to = args.save_to,
    message = "Collecting thread pool events",
  })
  if not result then return nil, err end
  local empty = source.path and collector.empty_recording(source.path, result.window.summary)
  if empty then return nil, empty end
  return artifacts.new(result, measured.window(result, source))
end

local function sentence(artifact, source)
  local workers = artifact.workers
  local causal = artifact.starvation + artifact.blocking
  return ("Thread pool of %s over %s: %s, %d work items queued, %d changes of its size%s."):format(
    source.path and "the recording" or ("process %d"):format(artifact.process_id), numbers.span(artifact.duration_ms),
    workers.latest and ("%d threads at the end, %d at most"):format(workers.latest, workers.peak) or "number of threads not told",
    artifact.enqueued, artifact.n_adjustments, causal > 0 and (", %d of them for starvation or blocking"):format(causal) or "")
end

return collector {
  kind = "threadpool", handle = "threadpool-snapshot", data_field = "threadPool", payload = "ThreadPoolEventSnapshot",
  risk = {
    level = "low", target_impact = "low", data_exposure = "metadata",
    reason = "Each work item that is queued walks a stack in the target: one that handles tens of thousands a second slows down.",
  },
  collect = collect, summary = sentence,
  inline = function(artifact, args) return snapshot.wire(artifact, args.depth) end,
}
