-- SPDX-License-Identifier: MIT
-- allocation: what is allocated and where, from the ticks that the runtime gives about each 100 KB, or, of .NET 10 and when asked for, from
-- its random samples of objects.
local lazy = require("lunette.lazy")
local allocated = lazy("samplers.allocated")
local capture = lazy("samplers.capture")
local collector = require("lunette.collector")
local event_names = require("collectors.event_names")
local json = require("lunette.json")
local numbers = require("lunette.numbers")
local runtimes = lazy("collectors.allocations_sampled.runtimes")
local sources = lazy("samplers.sources")

local TOP <const> = 25
local FEW <const> = 20 -- ticks: below, the order of types is chance

local ORDER <const> = { __order = {
  "processId", "startedAt", "duration", "totalEvents", "totalBytes", "topByBytes", "topByCount", "topBySite", "notes", "cost",
} }

local function sampled_notes(artifact, live)
  local notes, info = artifact.notes, artifact.info
  if info.samples == 0 then
    notes[#notes + 1] = live and "NoSamples: the runtime draws one byte in 102,400, and none of the window was drawn."
      or artifact.ended_early and "NoSamples: no random sample came before the recording stops."
      or "NoSamples: the recording has no AllocationSampled event: it was made without keyword 0x80000000000, or before .NET 10."
    return
  end
  notes[#notes + 1] = "Sampled: events are drawn objects (one byte in 102,400 is drawn), bytes what they stand for; "
    .. 'collect_events(kind="allocations-sampled") gives bounds too.'
  if info.samples < FEW then notes[#notes + 1] = "FewSamples: so few of them say little of types and call sites." end
end

local function tick_notes(artifact, live)
  local notes, info = artifact.notes, artifact.info
  if info.samples == 0 then
    notes[#notes + 1] = live and "NoTicks: the runtime tells of about each 100 KB that is allocated, and none was full within the window."
      or artifact.ended_early and "NoTicks: no allocation tick came before the recording stops."
      or "NoTicks: the recording has no GC/AllocationTick event: it was made without keyword 0x1 at level 5 of the runtime's provider."
  elseif info.samples < FEW then
    notes[#notes + 1] = "FewTicks: one tick stands for about 100 KB, so few of them say little of types and call sites."
  end
end

local function add_notes(artifact, live)
  local notes, info = artifact.notes, artifact.info
  if artifact.sampled then sampled_notes(artifact, live) else tick_notes(artifact, live) end
  if info.samples > 0 and not artifact.named then
    notes[#notes + 1] = "NoNames: this runtime (NativeAOT) tells neither the types nor the methods of its allocations."
  end
end

local function collect(ctx, source, args)
  local live = source.process
  local old = args.sampled and live and runtimes.unsupported(live)
  if old then return nil, old end
  local artifact, err = capture.run(ctx, source, args, {
    kind = "allocation", sampled = args.sampled, message = "Sampling allocations", save_to = args.save_to,
  })
  if not artifact then return nil, err end
  artifact.sampled = args.sampled
  allocated.add(artifact)
  sources.modules(artifact, live)
  add_notes(artifact, live)
  return artifact
end

local function inline(artifact, args)
  local top = args.topN or TOP
  return setmetatable({
    processId = artifact.process_id, startedAt = numbers.iso(artifact.started_unix_ms), duration = numbers.timespan(artifact.duration_ms),
    totalEvents = artifact.info.samples, totalBytes = artifact.info.bytes or 0,
    topByBytes = allocated.type_rows(artifact.types, top), topByCount = allocated.type_rows(artifact.types_by_count, top),
    topBySite = allocated.site_rows(artifact, top), notes = json.array(artifact.notes), cost = artifact.cost,
  }, ORDER)
end

local function sentence(artifact, source)
  local what = source.path and "The recording" or ("Process %d"):format(artifact.process_id)
  local info = artifact.info
  local of = artifact.sampled and "sample" or "tick"
  if info.samples == 0 then
    return ("%s: no allocation %s in %s%s."):format(what, of, numbers.span(artifact.duration_ms),
      (source.path or artifact.sampled) and "" or ": less than about 100 KB were allocated")
  end
  local total = ("%s allocated about %.1f MB (%d %s%s) in %s."):format(what, info.bytes / 1e6, info.samples, of,
    info.samples == 1 and "" or "s", numbers.span(artifact.duration_ms))
  if not artifact.named then
    return total .. " NativeAOT tells neither types nor methods of them: take collect_sample(kind=\"cpu\") to see which code runs."
  end
  local first, site = artifact.types[1], artifact.sites[1]
  return ("%s Most: %s (%.0f %%)%s."):format(total, event_names.spoken(first.type), 100 * first.bytes / math.max(1, info.bytes),
    site and ("; most at %s (%.0f %%)"):format(event_names.spoken(site.method), 100 * site.exclusive_bytes / math.max(1, info.bytes)) or "")
end

return collector.branch {
  tool = "collect_sample", kind = "allocation", handle = "allocation-sample", data_field = "allocation", payload = "AllocationSample",
  description = "Types and call sites of allocations, from a tick about each 100 KB.",
  risk = {
    level = "moderate", target_impact = "low", data_exposure = "metadata",
    reason = "The runtime tells of about each 100 KB that is allocated, with a stack; answers hold names of types and methods.",
  },
  collect = collect, inline = inline, summary = sentence,
}
