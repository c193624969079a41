-- SPDX-License-Identifier: MIT
-- The jit collector: what the JIT compiler did in one window, how long each method took, at which tier, and what ReadyToRun code spared.
local lazy = require("lunette.lazy")
local artifacts = lazy("collectors.jit.artifact")
local collector = require("lunette.collector")
local errors = require("lunette.errors")
local measured = require("collectors.measured")
local numbers = require("lunette.numbers")
local probe = require("lunette.probe")
local snapshot = lazy("collectors.jit.snapshot")

local RUNTIME <const> = probe.RUNTIME
local MAX_METHODS <const> = 16384  -- told apart while events come
local MAX_ROWS <const> = 10000     -- kept for the handle, those with the most JIT time
local MAX_NAMESPACES <const> = 20  -- those with the most compilations
local MAX_LOOKUPS <const> = 16384  -- methods with an IL map
local LEVEL <const> = 5            -- the start of a compilation is Verbose

local function event(name) return RUNTIME .. "/" .. name end
local function rest(on, where) return probe.count { on = on, where = where } end

local program <const> = probe.program {
  name = "jit",
  providers = { {
    name = RUNTIME, level = LEVEL,
    keywords = { "Jit", "JittedMethodILToNativeMap", "OverrideAndSuppressNGenEvents", "Compilation", "CompilationDiagnostic" },
  } },
  events = {
    start = event("Method/JittingStarted"), load = { event("Method/LoadVerbose"), event("Method/Load") },
    lookup = event("Method/R2RGetEntryPoint"), il_map = event("Method/ILToNativeMap"), pause = event("TieredCompilation/Pause"),
    background = event("TieredCompilation/BackgroundJitStop"),
  },
  let = {
    jitted = "(MethodFlags & 8) != 0", whole = "(MethodFlags >> 28) & 15 == 0", -- a cold part has a row of its own
    again = "@version >= 2 and ReJITID > 0", -- version 1 is that of a method's first body
    tier = "(MethodFlags >> 7) & 7",
    is_tier0 = "jitted and (tier == 1 or tier == 3 or tier == 6)",
    is_tier1 = "jitted and (tier == 2 or tier == 4 or tier == 5 or tier == 7)",
  },
  keep = {
    starts = rest("start"), completed = rest("load", "jitted and whole"), ready_to_run = rest("load", "not jitted"),
    tier0 = rest("load", "is_tier0 and whole"), tier1 = rest("load", "is_tier1 and whole"),
    osr = rest("load", "jitted and tier == 5 and whole"),
    rejit = rest("load", "again and jitted and whole"), dynamic = rest("load", "jitted and (MethodFlags & 1) != 0 and whole"),
    compiled = probe.pair {
      start = "start", stop = "load", by = { "@thread", "MethodID" }, where = "whole",
      keep = {
        ns = probe.sum("@duration"),
        seconds = probe.timeline { every = "1s", keep = { n = probe.count(), ns = probe.sum("@duration") } },
        namespaces = probe.group { by = "start.MethodNamespace", top = MAX_NAMESPACES, keep = { n = probe.count() } },
        methods = probe.group {
          by = { namespace = "start.MethodNamespace", name = "start.MethodName", signature = "start.MethodSignature" },
          weight = "@duration", max = MAX_METHODS, top = MAX_ROWS,
          keep = {
            n = probe.count(), ns = probe.sum("@duration"), id = probe.value("MethodID"), tier = probe.value("tier"),
            jitted = probe.value("jitted"), tier0 = rest(nil, "is_tier0"), tier1 = rest(nil, "is_tier1"),
            ready_to_run = rest(nil, "not jitted"), osr = rest(nil, "jitted and tier == 5"), rejit = rest(nil, "again and jitted"),
          },
        },
      },
    },
    r2r_lookups = rest("lookup"), r2r_hits = rest("lookup", "EntryPoint != 0"),
    r2r_miss_then_jit = probe.pair { start = "lookup", stop = "start", by = "MethodID", where = "start.EntryPoint == 0" },
    n_il_maps = rest("il_map"), changed_il = rest("il_map", "@version >= 1 and ILVersionID > 0"),
    il_maps = probe.group { by = "MethodID", on = "il_map", max = MAX_LOOKUPS, top = MAX_LOOKUPS, keep = { n = probe.count() } },
    tiering_pauses = rest("pause"), background_runs = rest("background"),
    background_compiled = probe.sum("JittedMethodCount", { on = "background" }),
  },
}

local function collect(ctx, source, args)
  local process = source.process
  if process and process.digest.runtime == "NativeAot" then
    return nil, errors.not_supported(("Process %d is a NativeAOT program: its code was compiled before it was started, so there is no "
      .. "JIT compiler to watch."):format(process.pid))
  end
  local result, err = probe.run(ctx, program, {
    process = process, path = source.path, duration_ms = args.durationSeconds * 1000, save_to = args.save_to,
    message = "Collecting JIT events",
  })
  if not result then return nil, err end
  local empty = source.path and collector.empty_recording(source.path, result.window.summary)
  if empty then return nil, empty end
  local artifact = artifacts.new(result, measured.window(result, source))
  measured.none_recorded(artifact.notes, source, artifact.starts + artifact.completed + artifact.r2r_lookups, "compilation",
    "the runtime's keyword Jit (0x10)")
  return artifact
end

return collector {
  kind = "jit", handle = "jit-snapshot", risk = "low", data_field = "jit", payload = "JitSnapshot", collect = collect,
  inline = function(artifact, args) return snapshot.wire(artifact, args.depth) end,
  summary = function(artifact, source)
    local what = source.path and "the recording" or ("process %d"):format(artifact.process_id)
    return ("JIT of %s over %s, %s"):format(what, numbers.span(artifact.duration_ms), artifacts.health(artifact))
  end,
}
