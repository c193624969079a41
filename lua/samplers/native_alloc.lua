-- SPDX-License-Identifier: MIT
-- native-alloc: who calls the native allocator, from probes on malloc and its like: calls, no bytes. With outstanding=true each call is
-- paired with its return and with free: the blocks of the window that were not freed in it, with their bytes.
local lazy = require("lunette.lazy")
local collector = require("lunette.collector")
local event_names = require("collectors.event_names")
local hits = lazy("samplers.hits")
local json = require("lunette.json")
local oncpu = lazy("samplers.oncpu")
local wire = lazy("samplers.wire")

local TOP <const> = 25
local FUNCTIONS <const> = { "malloc", "calloc", "realloc", "posix_memalign", "aligned_alloc", "memalign" } -- most wanted first

-- Its functions in C, and what gives back.
local PAIRED <const> = { "malloc", "calloc", "realloc", "posix_memalign", "aligned_alloc", "memalign", "free" }
local ORDER <const> = { __order = {
  "processId", "startedAt", "duration", "totalHits", "samplePeriod", "backend", "symbolSource", "byFunction", "outstanding",
  "topHotspots", "notes",
  "cost",
} }

local OUTSTANDING_ORDER <const> = { __order = {
  "blocks", "bytes", "allocatedBlocks", "allocatedBytes", "freedBlocks", "freedBytes", "freedOlderBlocks", "incomplete",
  "incompleteReasons", "sites",
} }
local SITE_ORDER <const> = { __order = { "frame", "blocks", "bytes", "inclusiveBytes" } }

-- Why blocks may be told that were freed, or be missing.
local function incomplete(stats)
  local why, o = json.array({}), stats.outstanding
  local function add(n, text)
    if n > 0 then why[#why + 1] = text:format(n) end
  end
  add(stats.lost, "%d records of the kernel were lost")
  add(stats.throttled, "the kernel held calls back %d times (kernel.perf_event_max_sample_rate)")
  add(stats.threads_missing, "%d threads are not watched")
  add(o.untracked, "%d blocks found no room")
  add(stats.dropped, "%d blocks have no stack")
  return why
end

local function collect(ctx, source, args)
  return hits.run(ctx, source, args, {
    kind = "native-alloc", functions = args.outstanding and PAIRED or FUNCTIONS,
    period = args.outstanding and 1 or args.nativeAllocSamplePeriod, message = "Watching the native allocator",
    way = args.way, outstanding = args.outstanding or nil,
  })
end

local function outstanding(artifact, n)
  local o, why, sites = artifact.hits.outstanding, incomplete(artifact.hits), json.array({})
  for i = 1, math.min(n, #artifact.hotspots) do
    local row = artifact.hotspots[i]
    if (row.exclusive_bytes or 0) == 0 then break end
    sites[i] = setmetatable({ frame = wire.frame(row), blocks = row.exclusive, bytes = row.exclusive_bytes,
      inclusiveBytes = row.inclusive_bytes }, SITE_ORDER)
  end
  return setmetatable({
    blocks = o.blocks, bytes = o.bytes, allocatedBlocks = o.allocated, allocatedBytes = o.allocated_bytes, freedBlocks = o.freed,
    freedBytes = o.freed_bytes, freedOlderBlocks = o.freed_older, incomplete = #why > 0, incompleteReasons = why, sites = sites,
  }, OUTSTANDING_ORDER)
end

local function inline(artifact, args)
  local out = hits.head(artifact)
  out.backend, out.symbolSource = hits.backend(artifact), oncpu.symbol_source(artifact)
  out.byFunction, out.topHotspots = hits.functions(artifact), hits.hotspots(artifact, args.topN or TOP)
  if artifact.hits.outstanding then out.outstanding = outstanding(artifact, args.topN or TOP) end
  return setmetatable(out, ORDER)
end

local function not_freed(artifact)
  local o, row = artifact.hits.outstanding, artifact.hotspots[1]
  local said = ("Process %d took %d native blocks (%d bytes) in %.1f s; %d of them (%d bytes) were not freed within the window%s."):format(
    artifact.process_id, o.allocated, o.allocated_bytes, artifact.duration_ms / 1000, o.blocks, o.bytes,
    #incomplete(artifact.hits) > 0 and ", as far as it was seen: incomplete" or "")
  if not row or o.bytes == 0 then return said end
  return ("%s Most from %s (%d bytes)."):format(said, event_names.spoken(row.method), row.exclusive_bytes)
end

local function sentence(artifact)
  if artifact.hits.outstanding then return not_freed(artifact) end
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
  source = collector.kernel_source, collect = collect, inline = inline, summary = sentence,
}
