-- SPDX-License-Identifier: MIT
-- sweep: counters, collections, exceptions, thread pool and resources of one window at once, judged as a triage. A part that fails costs
-- the others nothing.
local lazy = require("lunette.lazy")
local collector = require("lunette.collector")
local errors = require("lunette.errors")
local fanout = require("lunette.fanout")
local hints = require("lunette.hints")
local json = require("lunette.json")
local loop = require("lunette.loop")
local process = require("lunette.process")
local progress = require("lunette.progress")
local resources = lazy("views.process.resources")
local signal = require("lunette.signal")
local snapshot = lazy("collectors.counters.snapshot")
local triage = lazy("triage")

local M = {}

local PARTS <const> = { "counters", "gc", "exceptions", "threadpool" }
local CORRELATED <const> = { counters = true, gc = true, exceptions = true }
local MB <const> = 1000000 -- as the runtime counts

local ORDER <const> = { __order = {
  "triage", "counters", "gc", "exceptions", "threadpool", "resource", "handles", "failures" } }
local HANDLE_ORDER <const> = { __order = PARTS }
local FAILURE_ORDER <const> = { __order = { "collector", "error" } }
local ERROR_ORDER <const> = { __order = { "kind", "message", "detail" } }

local function failure(part, err)
  return setmetatable({
    collector = part, error = setmetatable({ kind = err.kind, message = err.message, detail = err.detail }, ERROR_ORDER),
  }, FAILURE_ORDER)
end

local function prepare(ctx, target, args)
  local tool, calls = fanout.tool("collect_events"), {}
  for i, kind in ipairs(PARTS) do
    -- the scope of the sweep covers its parts
    local call, err = tool:prepare(ctx,
      { kind = kind, processId = target.pid, durationSeconds = args.durationSeconds, depth = args.depth }, { authorised = true })
    if not call then return nil, err end
    calls[i] = call
  end
  local wanted = triage.options()
  local own = calls[1].bound.args
  own.meters, own.providers, own.implicit_meters = wanted.meters, wanted.providers, wanted.implicit_meters
  own.maxInstrumentTimeSeries = wanted.max_series
  return calls
end

-- The window of a collector that failed: nothing measured.
local function no_counters(target)
  return {
    process_id = target.pid, started_unix_ms = loop.unix_ms(), duration_ms = 0, interval_s = 1, counters = {}, meters = {},
    provider_order = {}, notes = {}, origin = "live",
  }
end

local function heap_bytes(artifact)
  local c = artifact and snapshot.find(artifact, "System.Runtime", "gc-heap-size")
  return c and c.series.last and math.floor(c.series.last * MB + 0.5)
end

-- Puts the results of the parts together: rows by collector, handles, artifacts, signals, failures.
local function gather(results)
  local got = { data = {}, handles = {}, artifacts = {}, signals = {}, failures = json.array({}), contributors = {} }
  for i, kind in ipairs(PARTS) do
    local r = results[i]
    if r.error then
      got.failures[#got.failures + 1] = failure(kind, r.error)
    else
      local handle, signals = r.extras.handle, r.extras.signals or {}
      got.data[kind], got.handles[kind], got.artifacts[kind] = r.data, handle.id, handle.artifact
      for _, found in ipairs(signals) do
        for _, bucket in ipairs(found.buckets or {}) do bucket.handle = bucket.handle or handle.id end
        got.signals[#got.signals + 1] = found
      end
      if CORRELATED[kind] then
        got.contributors[#got.contributors + 1] = { collector = kind, handle = handle.id, signals = signals }
      end
    end
  end
  for _, together in ipairs(signal.of_capture("sweep", got.contributors)) do got.signals[#got.signals + 1] = together end
  return got
end

-- The sentence of the triage, what each failed part says, and no word about the handles: they are in the data.
local function sentence(judged, counters, failures)
  local said = { triage.sentence(judged, counters) }
  for _, f in ipairs(failures) do said[#said + 1] = ("%s failed: %s"):format(f.collector, f.error.message) end
  return table.concat(said, " ")
end

local function next_steps(judged, target, handles)
  local list = triage.hints(judged, target.pid)
  if collector.is_gone(target) then list = collector.without_ended(list, target.pid) end
  if handles.counters then
    list[#list + 1] = hints.new("query_snapshot", "See every counter of this window, by provider.",
      { handle = handles.counters, view = "byProvider" }, "low")
  end
  return list
end

local function run(ctx, args)
  local target, err = process.resolve(ctx, args.processId)
  if not target then return nil, err end
  local calls
  calls, err = prepare(ctx, target, args)
  if not calls then return nil, err end
  local _ <close> = progress.start(ctx, { seconds = args.durationSeconds, message = "Sweeping over five collectors" })
  local results
  results, err = fanout.run(ctx, calls)
  if not results then return nil, err end
  local got = gather(results)
  if #got.failures == #PARTS then return nil, results[1].error end
  local report
  report, err = resources.now(target, heap_bytes(got.artifacts.counters))
  if not report then got.failures[#got.failures + 1] = failure("resource", errors.classify(err)) end
  local counters = got.artifacts.counters or no_counters(target)
  local judged = triage.judge(counters, target.pid, got.artifacts)
  return setmetatable({
    triage = judged, counters = got.data.counters, gc = got.data.gc, exceptions = got.data.exceptions, threadpool = got.data.threadpool,
    resource = report, handles = setmetatable(got.handles, HANDLE_ORDER), failures = got.failures,
  }, ORDER), {
    summary = sentence(judged, counters, got.failures), process = target, signals = got.signals,
    hints = next_steps(judged, target, got.handles),
  }
end

M.branch = { risk = "moderate", scopes = { "eventpipe" }, task = true, data_field = "sweep", payload = "SweepReport", run = run }

return M
