-- SPDX-License-Identifier: MIT
-- allocations-sampled: what a process allocates, by type and by call site, as unbiased estimates with bounds, from the random samples that
-- .NET 10 and later take (one in 102,400 bytes; see allocations_sampled/estimate.lua).
local lazy = require("lunette.lazy")
local collector = require("lunette.collector")
local estimate = lazy("collectors.allocations_sampled.estimate")
local event_names = require("collectors.event_names")
local measured = require("collectors.measured")
local numbers = require("lunette.numbers")
local probe = require("lunette.probe")
local runtimes = lazy("collectors.allocations_sampled.runtimes")
local signal = require("lunette.signal")
local wire = lazy("collectors.allocations_sampled.wire")

local INLINE <const> = { Summary = { types = 10, sites = 8 }, Detail = { types = 50, sites = 25 }, Raw = { types = 50, sites = 25 } }
local UNKNOWN <const> = "<unknown>"
local BY_TYPE <const> = "allocations.by-type" -- the signal that says how many samples are few
local NO_NAME <const> = "NULL"      -- what NativeAOT writes: it samples, but tells neither types nor stacks

--- The sums from which estimate.of makes an estimate. w: how many objects a sample stands for.
local function sums(more)
  local keep = {
    n = probe.count(), seen = probe.sum("ObjectSize"), objects = probe.sum("w"), objects_var = probe.sum("w * w - w"),
    objects_max = probe.max("w"), bytes = probe.sum("bytes"), bytes_var = probe.sum("ObjectSize * ObjectSize * (w * w - w)"),
    bytes_max = probe.max("bytes"),
  }
  for name, reducer in pairs(more or {}) do keep[name] = reducer end
  return keep
end

local PROGRAM <const> = probe.program {
  name = "allocations-sampled",
  providers = { { name = probe.RUNTIME, keywords = "AllocationSampling", level = 4 } },
  events = { sampled = probe.RUNTIME .. "/AllocationSampled" },
  let = { w = ("1 / (1 - exp(ObjectSize * -%.20f))"):format(estimate.RATE), bytes = "ObjectSize * w" },
  keep = {
    total = probe.filter { keep = sums() },
    types = probe.group {
      by = "TypeName", weight = "bytes", top = 500,
      keep = sums { large = probe.sum("bytes", { where = "AllocationKind == 1" }) },
    },
    sites = probe.group {
      by = "@stack", frames = { depth = 1 }, weight = "bytes", top = 200,
      keep = sums {
        stack = probe.value("@stack"),
        types = probe.group { by = "TypeName", weight = "bytes", top = 1, max = 64, keep = { n = probe.count() } },
      },
    },
  },
}

local function names_of(result, stack)
  local names = {}
  for i, frame in ipairs((result.stacks[stack] or {}).frames or {}) do names[i] = frame.name or UNKNOWN end
  return names
end

local function type_name(name) return name and name ~= NO_NAME and name or UNKNOWN end

local function type_of(row)
  return { name = type_name(row.key), estimate = estimate.of(row), large_bytes = math.floor((row.large or 0) + 0.5) }
end

local function site_of(result, row)
  local frame = ((result.stacks[row.key] or {}).frames or {})[1] or {}
  local top = row.types.rows[1]
  return {
    method = frame.name or UNKNOWN, module = frame.module, estimate = estimate.of(row), top_type = top and type_name(top.key),
    stack = names_of(result, row.stack),
  }
end

local function rows_of(group, make)
  local rows = {}
  for i, row in ipairs(group.rows) do rows[i] = make(row) end
  return rows, group.keys
end

local function add_notes(artifact, result, live)
  local notes = artifact.notes
  if artifact.total.samples == 0 then
    notes[#notes + 1] = live and ("NoSamples: nothing was sampled: as good as certainly less than %.2f MB were allocated. A longer window "
      .. "sees more."):format(estimate.detection_limit() / 1e6)
      or "NoSamples: the recording holds no AllocationSampled event (keyword 0x80000000000 of .NET 10)."
  end
  for _, group in ipairs({ { "types", result.types }, { "call sites", result.sites } }) do
    local left = group[2].keys - #group[2].rows
    if left > 0 then notes[#notes + 1] = ("Capped: %d more %s are only in the total."):format(left, group[1]) end
  end
  if #artifact.types == 1 and artifact.types[1].name == UNKNOWN then
    notes[#notes + 1] = "NoNames: this runtime (NativeAOT) tells neither types nor stacks of its samples: only the total is known."
  end
  local by_type = signal.find(BY_TYPE)
  local few = by_type and by_type.limits.min_samples or 0
  if artifact.total.samples > 0 and artifact.total.samples < few then
    notes[#notes + 1] = "FewSamples: the bounds are wide; a longer window narrows them (100 samples: a quarter; 1,000: 8 %)."
  end
end

local function collect(ctx, from, args)
  local live = from.process
  local err = live and runtimes.unsupported(live)
  if err then return nil, err end
  local result
  result, err = probe.run(ctx, PROGRAM, {
    process = live, path = from.path, duration_ms = args.durationSeconds * 1000, message = "Sampling allocations",
    save_to = args.save_to,
  })
  if not result then return nil, err end
  err = from.path and collector.empty_recording(from.path, result.window.summary)
  if err then return nil, err end
  local artifact = measured.window(result, from)
  artifact.total = estimate.of(result.total)
  artifact.types, artifact.n_types = rows_of(result.types, type_of)
  artifact.sites, artifact.n_sites = rows_of(result.sites, function(row) return site_of(result, row) end)
  add_notes(artifact, result, live)
  return artifact
end

local function inline(artifact, args)
  local size, notes = INLINE[args.depth], { table.unpack(artifact.notes) }
  local types, sites = wire.types(artifact, size.types), wire.sites(artifact, size.sites, args.depth ~= "Summary")
  if #types < artifact.n_types or #sites < artifact.n_sites then
    notes[#notes + 1] = "Inline: more types and call sites are behind the handle: query_snapshot(view=\"summary\" or \"bySite\")."
  end
  return wire.snapshot(artifact, types, sites, notes)
end

local function sentence(artifact, from)
  local total, top = artifact.total, artifact.types[1]
  local what = from.path and "The recording" or ("Process %d"):format(artifact.process_id)
  if total.samples == 0 then return ("%s: no allocation was sampled in %s."):format(what, numbers.span(artifact.duration_ms)) end
  return ("%s allocated about %.1f MB (%d %%: %.1f to %.1f MB) in %s%s."):format(what, total.bytes / 1e6,
    estimate.CONFIDENCE_PERCENT, total.bytes_low / 1e6, total.bytes_high / 1e6, numbers.span(artifact.duration_ms),
    top.name ~= UNKNOWN and total.bytes > 0
      and (", %.0f %% of it %s"):format(100 * top.estimate.bytes / total.bytes, event_names.spoken(top.name)) or "")
end

return collector {
  kind = "allocations-sampled", handle = "allocations-sampled-snapshot", data_field = "allocationsSampled",
  payload = "AllocationsSampledSnapshot", risk = "low", collect = collect, inline = inline, summary = sentence,
}
