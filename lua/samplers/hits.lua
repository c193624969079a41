-- SPDX-License-Identifier: MIT
-- One window of calls of native functions into a profile: what native-alloc and native-lock-contention have in common. The leaf of a stack
-- is who calls; the function itself is told apart from it, with its exact number of calls.
local beside = require("samplers.beside")
local hits = require("lunette.hits")
local json = require("lunette.json")
local kernel_error = require("samplers.kernel_error")
local loop = require("lunette.loop")
local measured = require("collectors.measured")
local numbers = require("lunette.numbers")
local proc = require("lunette.proc")
local progress = require("lunette.progress")
local sources = require("samplers.sources")
local stopped = require("samplers.stopped")
local wire = require("samplers.wire")

local M = {}

local FUNCTION_ORDER <const> = { __order = { "function", "library", "hits" } }
local MANAGED <const> = { managed = true, dynamic = true }

local function loss_notes(stats, notes)
  if stats.lost > 0 then
    notes[#notes + 1] = ("RecordsLost: the kernel could not deliver %d stacks; the number of calls is right, their distribution is of the "
      .. "others."):format(stats.lost)
  end
  if stats.throttled > 0 then
    notes[#notes + 1] = ("Throttled: the kernel held back the stacks %d times (kernel.perf_event_max_sample_rate). A larger period avoids "
      .. "it."):format(stats.throttled)
  end
  if stats.dropped > 0 then
    notes[#notes + 1] = ("SamplesDropped: the stacks of %d calls found no room; they are in <root> only."):format(stats.dropped)
  end
  if stats.threads_missing > 0 then
    notes[#notes + 1] = ("ThreadsMissing: %d threads are not watched: there were not enough descriptors (ulimit -n)."):format(
      stats.threads_missing)
  end
  if stats.broken > 0 then
    notes[#notes + 1] = ("StacksIncomplete: %d different stacks end before their root."):format(stats.broken)
  end
end

local function way_notes(stats, spec, notes)
  if stats.way == "hardware-breakpoint" then
    notes[#notes + 1] = "Breakpoints: " .. (stats.crowded and "the tracing files are not writable here, and the process has too many "
      .. "threads for uprobes without them" or "uprobes are not to be had here") .. ", so the functions are watched by hardware breakpoints"
      .. (stats.left_out > 0 and (", of which a processor has four: %d functions are not watched."):format(stats.left_out) or ".")
  end
  if stats.way == "perf-uprobe" then
    notes[#notes + 1] = "LaterThreads: the tracing files are not writable here, so the probes are perf's own, which threads that start "
      .. "within the window do not inherit: their calls are missing."
  end
  local sampled = (stats.samples + stats.lost) * spec.period
  if not spec.outstanding and stats.calls > sampled and stats.calls - sampled > stats.calls // 100 then
    notes[#notes + 1] = ("Remainder: %d of %d calls are in no stack: a stack is taken each %d calls of a function on a thread and "
      .. "processor. A smaller period tells more of them."):format(stats.calls - sampled, stats.calls, spec.period)
  end
  if stats.target_ended then notes[#notes + 1] = "EndedEarly: the process ended within the window." end
end

local function name_notes(artifact, why, told, notes)
  if why then
    notes[#notes + 1] = beside.note(why, told)
    return
  end
  for _, row in ipairs(artifact.profile:top_methods { top = 500, rank_by = "inclusive" }) do
    if MANAGED[artifact.profile:frame(row.frame).kind] then return end
  end
  if artifact.info.samples > 0 then notes[#notes + 1] = "NativeOnly: no stack has managed frames: all calls came from native threads." end
end

local function window(ctx, target, args, spec, builder)
  local session <close>, err = hits.open {
    pid = target.pid, builder = builder, functions = spec.functions, period = spec.period, way = spec.way,
    outstanding = spec.outstanding,
  }
  if not session then return nil, kernel_error.of(err, target.pid, spec.kind) end
  local started_unix_ms, own_ns, ok = loop.unix_ms(), proc.own_cpu().process_ns
  do
    local _ <close> = progress.start(ctx, { seconds = args.durationSeconds, message = spec.message })
    ok, err = session:run(args.durationSeconds * 1000)
    if not ok then return nil, err end
  end
  return { stats = session:stats(), started_unix_ms = started_unix_ms, cpu_ms = (proc.own_cpu().process_ns - own_ns) / 1e6 }
end

---@class HitsSpec
---@field kind string
---@field functions string[]
---@field period integer
---@field message string
---@field way string?
---@field outstanding boolean?   what is not freed, in place of calls

--- Runs the window and builds the profile.
---@param ctx table
---@param source CollectorSource
---@param args table
---@param spec HitsSpec
---@return SampleArtifact? artifact, table? err
function M.run(ctx, source, args, spec)
  loop.set_budget(-1)
  local target = source.process
  local builder <close>, err, told = beside.before(source, spec.outstanding and "allocation" or nil)
  if not builder then return nil, err end
  local program = stopped.program(target.pid)
  local done
  done, err = window(ctx, target, args, spec, builder)
  if not done then return nil, err end
  local notes = {}
  stopped.note(target.pid, notes, program)
  local why = beside.after(source, builder)
  local built
  built, err = builder:build()
  if not built then return nil, err end
  local stats = done.stats
  local artifact = {
    profile = built, info = built:info(), modules = built:modules(), hits = stats, period = spec.period, process_id = target.pid,
    started_unix_ms = done.started_unix_ms, duration_ms = stats.elapsed_ms, notes = notes, recorded = false,
    cost = measured.price { lunette_cpu_ms = done.cpu_ms, window_ms = stats.elapsed_ms, events = stats.samples, lost = stats.lost,
      events_per_s = stats.samples * 1000 / math.max(1, stats.elapsed_ms) },
    close = function() built:close() end,
  }
  sources.modules(artifact, target)
  artifact.hotspots = built:top_methods { top = args.topN, rank_by = spec.outstanding and "bytes" or "exclusive" }
  loss_notes(stats, notes)
  way_notes(stats, spec, notes)
  name_notes(artifact, why, told, notes)
  return artifact
end

--- Hotspot[]: who calls, most calls first.
function M.hotspots(artifact, n)
  local rows = json.array({})
  for i = 1, math.min(n, #artifact.hotspots) do rows[i] = wire.hotspot(artifact, artifact.hotspots[i]) end
  return rows
end

--- The exact numbers of calls by function, most first.
function M.functions(artifact)
  local rows = json.array({})
  for i, f in ipairs(artifact.hits.functions) do
    rows[i] = setmetatable({ ["function"] = f.name, library = f.library, hits = f.calls }, FUNCTION_ORDER)
  end
  table.sort(rows, function(a, b)
    if a.hits ~= b.hits then return a.hits > b.hits end
    return a["function"] < b["function"]
  end)
  return rows
end

--- What the evidence is of.
function M.backend(artifact) return artifact.hits.way == "hardware-breakpoint" and "linux-breakpoint" or "linux-uprobe" end

--- What all payloads begin with.
function M.head(artifact)
  return {
    processId = artifact.process_id, startedAt = numbers.iso(artifact.started_unix_ms), duration = numbers.timespan(artifact.duration_ms),
    totalHits = artifact.hits.calls, samplePeriod = artifact.period, notes = json.array({ table.unpack(artifact.notes) }),
    cost = artifact.cost,
  }
end

return M
