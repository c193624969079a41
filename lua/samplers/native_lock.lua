-- SPDX-License-Identifier: MIT
-- native-lock-contention: who calls pthread_mutex_lock and its like, from probes on them. Calls, not waits: a free lock looks like a taken
-- one, so the evidence is activity, whatever the number.
local lazy = require("lunette.lazy")
local collector = require("lunette.collector")
local contention = lazy("samplers.native_contention")
local event_names = require("collectors.event_names")
local hits = lazy("samplers.hits")
local oncpu = lazy("samplers.oncpu")

local TOP <const> = 25
local FUNCTIONS <const> = { "pthread_mutex_lock", "pthread_mutex_unlock", "pthread_mutex_trylock", "pthread_mutex_timedlock" }

local ORDER <const> = { __order = {
  "processId", "startedAt", "duration", "totalHits", "samplePeriod", "symbolSource", "byFunction", "contentionEvidence", "topHotspots",
  "notes", "cost",
} }

local function collect(ctx, source, args)
  local artifact, err = hits.run(ctx, source, args, {
    kind = "native-lock-contention", functions = FUNCTIONS, period = args.nativeLockContentionSamplePeriod,
    message = "Watching native mutexes", way = args.way,
  })
  if not artifact then return nil, err end
  artifact.contention = contention.of_calls(artifact.hits.calls,
    hits.backend(artifact) == "linux-breakpoint" and contention.LOCK_BREAKPOINTS or nil)
  return artifact
end

local function inline(artifact, args)
  local out = hits.head(artifact)
  out.symbolSource, out.contentionEvidence = oncpu.symbol_source(artifact), artifact.contention
  out.byFunction, out.topHotspots = hits.functions(artifact), hits.hotspots(artifact, args.topN or TOP)
  return setmetatable(out, ORDER)
end

local function sentence(artifact)
  local row, n = artifact.hotspots[1], artifact.hits.calls
  local said = ("Process %d called functions of native mutexes %d times in %.1f s: activity, no waits."):format(artifact.process_id, n,
    artifact.duration_ms / 1000)
  if not row then
    return n > 0 and said .. (" No stack was taken: fewer calls than the period of %d."):format(artifact.period) or said
  end
  return ("%s Most from %s (%.0f %% of the stacks)."):format(said, event_names.spoken(row.method),
    100 * row.exclusive / math.max(1, artifact.info.samples))
end

return collector.branch {
  tool = "collect_sample", kind = "native-lock-contention", handle = "native-lock-contention-sample", data_field = "nativeLockContention",
  payload = "NativeLockContentionSample",
  description = "Who calls pthread_mutex_lock and its like, by probes: calls, not waits.",
  risk = { level = "high", target_impact = "moderate", data_exposure = "metadata",
    reason = "It puts probes on mutexes: each call takes some microseconds longer for the window." },
  check = function(args)
    args.topN = args.topN or TOP
    return true
  end,
  source = collector.kernel_source, collect = collect, inline = inline, summary = sentence,
}
