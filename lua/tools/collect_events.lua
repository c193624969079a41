-- SPDX-License-Identifier: MIT
-- collect_events: one bounded EventPipe window of one kind; the whole capture stays behind a handle.
local lazy = require("lunette.lazy")
local collector = require("lunette.collector")
local counters = lazy("collectors.counters")
local errors = require("lunette.errors")
local numbers = require("lunette.numbers")
local snapshot = lazy("collectors.counters.snapshot")
local tool = require("lunette.tool")
local trigger = lazy("collectors.counters.trigger")

local MAX_INLINE_METERS <const> = 250   -- series at Detail; the handle has all
local MAX_INLINE_REQUESTS <const> = 10  -- request duration series at Summary
local MAX_SECONDS <const> = 300         -- beyond, only as a task
local TRIGGER_SCOPES <const> = {
  ["cpu-sample"] = { "eventpipe" }, heap = { "heap-read", "ptrace" }, ["thread-snapshot"] = { "ptrace" }, dump = { "dump-write", "ptrace" },
}

--- What of the capture is answered inline. The notes of the answer say what was left to the handle.
local function inline(artifact, depth)
  local notes = { table.unpack(artifact.notes) }
  local rows, series, left_out
  if depth == "Summary" then
    rows = snapshot.headline(artifact)
    series, left_out = snapshot.request_durations(artifact, MAX_INLINE_REQUESTS)
  else
    rows = snapshot.counters(artifact)
    series, left_out = snapshot.meters(artifact, MAX_INLINE_METERS)
  end
  if left_out > 0 then
    notes[#notes + 1] = ("Inline: %d more Meter series are behind the handle: query_snapshot(view=\"summary\")."):format(left_out)
  end
  return snapshot.wire(artifact, rows, series, notes)
end

-- What the one-line summary says, where it was measured.
local SPOKEN <const> = {
  { "System.Runtime", "cpu-usage", "CPU %.1f %%" }, { "System.Runtime", "gc-heap-size", "GC heap %.1f MB" },
  { "System.Runtime", "working-set", "working set %.0f MB" }, { "System.Runtime", "threadpool-queue-length", "pool queue %d" },
  { "System.Runtime", "monitor-lock-contention-count", "%d lock contentions an interval" },
}

local function sentence(artifact, source)
  local said = {}
  for _, row in ipairs(SPOKEN) do
    local c = snapshot.find(artifact, row[1], row[2])
    if c then said[#said + 1] = row[3]:format(row[3]:find("%d", 1, true) and math.floor(c.series.last + 0.5) or c.series.last) end
  end
  local what = source.path and "the recording" or ("process %d"):format(artifact.process_id)
  return ("%d counters and %d Meter series of %s over %s%s%s."):format(#artifact.counters, #artifact.meters, what,
    numbers.span(artifact.duration_ms), #said > 0 and ": " or "", table.concat(said, ", "))
end

--- read-counters, and what the capture of a trigger needs.
local function counters_scopes(_, args)
  local list = { "read-counters" }
  for _, scope in ipairs(args.triggerWhen and TRIGGER_SCOPES[args.captureKind] or {}) do list[#list + 1] = scope end
  return list
end

-- What a capture does to the target, on top of reading counters.
local TRIGGER_RISK <const> = { ["cpu-sample"] = "moderate", heap = "high", ["thread-snapshot"] = "high", dump = "critical" }

local function counters_risk(_, args) return args.triggerWhen and TRIGGER_RISK[args.captureKind] or "low" end

local function check_counters(args)
  local bad = counters.check(args)
  if bad then return nil, bad end
  if args.triggerWhen then return trigger.check(args) end
  return true
end

local counters_branch <const> = collector {
  kind = "counters", handle = "counters", risk = counters_risk, max_risk = "critical", scopes = counters_scopes,
  data_field = "counters", payload = "CounterSnapshot",
  check = check_counters,
  collect = function(ctx, source, args)
    return counters.collect(ctx, source, {
      providers = args.providers, meters = args.meters, interval_s = args.intervalSeconds, duration_s = args.durationSeconds,
      max_series = args.maxInstrumentTimeSeries, implicit_meters = args.implicit_meters, -- the last: of a composite call
    })
  end,
  inline = function(artifact, args) return inline(artifact, args.depth) end,
  summary = sentence,
}

local collect_counters = counters_branch.run
counters_branch.unavailable = function(...) return trigger.unavailable(...) end
counters_branch.extra = { gatedCapture = "GatedCapture" }
counters_branch.run = function(ctx, args) -- a watch answers its own record, and has no handle of its own
  if args.triggerWhen then return trigger.run(ctx, args) end
  return collect_counters(ctx, args)
end

-- A kind that works on attached Pods: this server has none.
local function fan_out(kind, risk, scopes, data_field, payload)
  return {
    risk = risk, scopes = scopes, task = true, data_field = data_field, payload = payload, extra = { podErrors = "PodError[]" },
    run = function()
      return nil, errors.new("OrchestratorDisabled", ("collect_events(kind=%q) works on the Pods that a server with the orchestrator is "
        .. "attached to, and this one runs without. Collect from each process on its own."):format(kind))
    end,
  }
end

return tool {
  name = "collect_events", title = "Collect events",
  description = "Collects one bounded window of runtime events of one kind and keeps the whole capture behind a handle for query_snapshot.",
  scopes = { list = { "read-counters", "eventpipe" }, semantics = "any" },
  discriminator = "kind",
  params = {
    {
      "kind", "string", default = "counters", trim = true, note = "What to collect.",
      enum = {
        "counters", "exceptions", "crash-guard", "gc", "datas", "catalog", "event_source", "activities", "logs", "jit", "threadpool",
        "contention", "db", "kestrel", "networking", "requests", "startup", "sweep", "distributed_trace", "replica_counters",
        "wait-handles", "runtime-metrics", "allocations-sampled", "http-phases",
      },
    },
    tool.process_id(),
    {
      "durationSeconds", "int", min = 1, max_without_task = MAX_SECONDS, default = 10,
      note = "Length of the window. Absent: counters 5, datas 15, sweep 6, others 10.",
      default_by_branch = { counters = 5, datas = 15, sweep = 6, replica_counters = 5 }, floor_by_branch = { sweep = 6 },
    },
    tool.depth {
      applies_to = {
        "counters", "exceptions", "crash-guard", "gc", "datas", "catalog", "event_source", "logs", "jit", "threadpool", "contention", "db",
        "kestrel", "networking", "requests", "startup", "sweep", "wait-handles", "runtime-metrics", "allocations-sampled", "http-phases",
      },
    },
    {
      "providers", "string[]?", applies_to = { "counters", "catalog" },
      note = "counters: EventCounter sources; absent: System.Runtime and ASP.NET Core, []: none.",
    },
    { "meters", "string[]?", applies_to = { "counters" }, note = "Meters, as Name, Name\\Instrument or Prefix*." },
    {
      "intervalSeconds", "int", default = 1, min = 1, applies_to = { "counters", "db", "kestrel", "networking", "replica_counters" },
      note = "How often the target reports.",
    },
    {
      "maxInstrumentTimeSeries", "int", default = 1000, min = 1, clamp_to = 10000, applies_to = { "counters" },
      note = "Cap on Meter series.",
    },
    {
      "traceFilePath", "string?",
      applies_to = {
        "counters", "exceptions", "crash-guard", "gc", "datas", "catalog", "event_source", "activities", "logs", "jit", "threadpool",
        "contention", "startup", "wait-handles", "runtime-metrics", "allocations-sampled", "networking", "http-phases", "requests",
        "kestrel", "db",
      },
      excludes = { "processId" }, refused_for = { "sweep" }, -- which would look at a live process instead
      note = "A recorded .nettrace file instead of a process.",
    },
    { "maxRecent", "int", default = 100, min = 1, applies_to = { "exceptions", "crash-guard" }, note = "Rows kept." },
    {
      "maxEvents", "int?", min = 1, applies_to = { "gc", "datas", "catalog", "event_source", "logs" }, max_by_branch = { gc = 100000 },
      default_by_branch = { gc = 200, event_source = 200, datas = 1000, logs = 500, catalog = 500 }, note = "Rows kept; counting goes on.",
    },
    {
      "induce", "bool", default = false, applies_to = { "gc" },
      note = "Force a full blocking collection (one or two, as the answer says): high risk.",
    },
    { "providerName", "string?", applies_to = { "event_source" }, required_for = { "event_source" }, note = "The event source." },
    { "keywords", "long", default = -1, applies_to = { "event_source" }, note = "Mask, number or 0x text; -1: all." },
    { "eventLevel", "int", default = 5, min = 0, max = 5, applies_to = { "event_source" }, note = "0 always to 5 verbose." },
    { "unsafeProvider", "bool", default = false, applies_to = { "event_source" }, note = "Allow a source outside the allowlist." },
    { "sources", "string[]?", applies_to = { "activities", "distributed_trace" }, note = "ActivitySource names with * and ?." },
    {
      "maxActivities", "int", default = 200, min = 1, applies_to = { "activities", "distributed_trace" },
      note = "Spans kept without traceId.",
    },
    {
      "traceId", "string?", trim = true, lower = true, applies_to = { "activities", "distributed_trace" },
      required_for = { "distributed_trace" }, note = "32 hex digits: keep this trace only.",
    },
    {
      "maxMatchedActivities", "int", default = 200, min = 1, applies_to = { "activities", "distributed_trace" },
      note = "Matching spans kept.",
    },
    {
      "includeHttpDestination", "bool", default = false, applies_to = { "activities", "distributed_trace" },
      note = "Scheme, host and port of outbound HTTP.",
    },
    { "categories", "string[]?", applies_to = { "logs" }, note = "Category globs, any letter case." },
    {
      "minLevel", "string", default = "Information", applies_to = { "logs" }, note = "Lowest level.",
      enum = { "Trace", "Debug", "Information", "Warning", "Error", "Critical" },
    },
    { "maxMessageBytes", "int", default = 4096, min = 16, applies_to = { "logs" }, note = "Bytes kept of a text." },
    { "longRunningThresholdMs", "double", default = 1000, min = 0, applies_to = { "requests" }, note = "Slower requests are flagged." },
    { "maxRequests", "int", default = 100, min = 1, applies_to = { "requests" }, note = "Rows inline, oldest first." },
    {
      "launch", "object?", applies_to = { "startup" }, only = true, excludes = { "processId" },
      note = "Start this program and watch it (stdio only).",
      fields = {
        { "fileName", "string", required = true }, { "arguments", "string[]?" }, { "workingDirectory", "string?" },
        { "environmentVariables", "object?" }, { "connectTimeoutSeconds", "int", default = 10, min = 1 },
      },
    },
    {
      "investigationHandleIds", "string[]?", applies_to = { "distributed_trace", "replica_counters" }, note = "Attached Pods; absent: all.",
    },
    {
      "triggerWhen", "string?", applies_to = { "counters" },
      note = "METRIC OP VALUE, metrics cpu gcHeapMb rssMb threadCount activeTimerCount, OP > >= < <=: capture when it holds.",
    },
    {
      "captureKind", "string?", enum = { "dump", "cpu-sample", "heap", "thread-snapshot" }, applies_to = { "counters" },
      required_with = "triggerWhen", note = "What to capture then.",
    },
    {
      "windowSeconds", "int?", min = 1, max = 300, applies_to = { "counters" }, required_with = "triggerWhen", note = "How long to watch.",
    },
    { "maxCaptures", "int", default = 1, min = 1, max = 10, applies_to = { "counters" }, note = "Captures, with triggerWhen." },
    { "sampleIntervalSeconds", "int", default = 2, min = 1, applies_to = { "counters" }, note = "How often to look, with triggerWhen." },
    { "confirmDump", "bool", default = false, applies_to = { "counters" }, note = "Must be true for captureKind=dump." },
  },
  branches = {
    counters = counters_branch,
    exceptions = require("collectors.exceptions"),
    ["crash-guard"] = require("collectors.crash_guard"),
    gc = require("collectors.gc"),
    datas = require("collectors.datas"),
    catalog = require("collectors.catalog"),
    event_source = require("collectors.event_source"),
    activities = require("collectors.activities"),
    logs = require("collectors.logs"),
    jit = require("collectors.jit"),
    threadpool = require("collectors.threadpool"),
    contention = require("collectors.contention"),
    db = require("collectors.db"),
    kestrel = require("collectors.kestrel"),
    networking = require("collectors.networking"),
    requests = require("collectors.requests"),
    startup = require("collectors.startup"),
    ["wait-handles"] = require("collectors.wait_handles"),
    ["runtime-metrics"] = require("collectors.runtime_metrics"),
    ["allocations-sampled"] = require("collectors.allocations_sampled"),
    ["http-phases"] = require("collectors.http_phases"),
    sweep = require("collectors.sweep").branch,
    distributed_trace = fan_out("distributed_trace", "moderate", { "eventpipe", "orchestrator-attach" }, "distributedTrace",
      "DistributedTrace"),
    replica_counters = fan_out("replica_counters", "low", { "read-counters", "orchestrator-attach" }, "replicaCounters", "ReplicaCounters"),
  },
}
