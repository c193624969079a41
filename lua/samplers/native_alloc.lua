-- SPDX-License-Identifier: MIT
-- native-alloc: who calls the native allocator, from probes on malloc and its like. Calls, no bytes, and nothing of what is freed.
local lazy = require("lunette.lazy")
local collector = require("lunette.collector")
local event_names = require("collectors.event_names")
local hits = lazy("samplers.hits")
local oncpu = lazy("samplers.oncpu")

local TOP <const> = 25
local FUNCTIONS <const> = { "malloc", "calloc", "realloc", "posix_memalign", "aligned_alloc", "memalign" } -- most wanted first

local ORDER <const> = { __order = {
  "processId", "startedAt", "duration", "totalHits", "samplePeriod", "backend", "symbolSource", "byFunction", "topHotspots", "notes",
  "cost",
} }

local function collect(ctx, source, args)
  return hits.run(ctx, source, args, {
    kind = "native-alloc", functions = FUNCTIONS, period = args.nativeAllocSamplePeriod, message = "Watching the native allocator",
    way = args.way,
  })
end

local function inline(artifact, args)
  local out = hits.head(artifact)
  out.backend, out.symbolSource = hits.backend(artifact), oncpu.symbol_source(artifact)
  out.byFunction, out.topHotspots = hits.functions(artifact), hits.hotspots(artifact, args.topN or TOP)
  return setmetatable(out, ORDER)
end

local function sentence(artifact)
  local row, n = artifact.hotspots[1], artifact.hits.calls
  local said = ("Process %d called the native allocator %d times in %.1f s."):format(artifact.process_id, n, artifact.duration_ms / 1000)
  if not row then
    return n > 0 and said .. (" No stack was taken: fewer calls than the period of %d."):format(artifact.period) or said
  end
  return ("%s Most from %s (%.0f %% of the stacks)."):format(said, event_names.spoken(row.method),
    100 * row.exclusive / math.max(1, artifact.info.samples))
end

return collector.branch {
  tool = "collect_sample", kind = "native-alloc", handle = "native-alloc-sample", data_field = "nativeAlloc", payload = "NativeAllocSample",
  description = "Who calls malloc and its like, by probes: calls, no bytes.",
  risk = { level = "high", target_impact = "moderate", data_exposure = "metadata",
    reason = "It puts probes on the allocator: each call takes some microseconds longer for the window." },
  check = function(args)
    args.topN = args.topN or TOP
    return true
  end,
  collect = collect, inline = inline, summary = sentence,
}
