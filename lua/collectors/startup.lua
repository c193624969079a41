-- SPDX-License-Identifier: MIT
-- startup: what a program loads and resolves while it starts: assemblies, modules, DependencyInjection. With `launch` the program is
-- started here, held before its first managed instruction until the session is armed, and ended when the window is over.
local lazy = require("lunette.lazy")
local collector = require("lunette.collector")
local errors = require("lunette.errors")
local json = require("lunette.json")
local launch = lazy("lunette.launch")
local measured = require("collectors.measured")
local numbers = require("lunette.numbers")
local probe = require("lunette.probe")
local process = require("lunette.process")
local program = lazy("collectors.startup.program")
local rows = lazy("collectors.startup.rows")
local text = require("lunette.text")

local MAX_CONNECT_S <const> = 300
local MAX_ARGUMENTS <const>, MAX_VARIABLES <const>, MAX_TEXT <const> = 1000, 500, 32768
local ENDING_MS <const> = 1000  -- from the end of the stream to the end of the program
local SUMMARY_ROWS <const> = 10 -- of each list inline at Summary
local DETAIL_ROWS <const> = 100 -- and at Detail; the handle has all
local PRE_ATTACH <const> = {
  [true] = "PreAttach: an attach to a running process misses what came before it, usually most of a cold start. This program was launched "
    .. "and its session armed before the first managed instruction: nothing came before.",
  [false] = "PreAttach: only what was loaded and resolved during the window is here. What came before the attach, usually most of a cold "
    .. "start, cannot be recovered: launch starts a program under observation, as does lunette run.",
}
local STATICS <const> = "StaticConstructors: the runtime tells no time spent in static constructors, and none is inferred. JIT work of a "
  .. "start: collect_events(kind=\"jit\")."

local LAUNCH_RISK <const> = {
  level = "critical", target_impact = "none", data_exposure = "metadata",
  side_effects = { "starts a program, and ends it after the window" },
  reason = "Starts a program on this machine with the rights of the server.",
  mitigations = {
    "The program is ended with all of its process group when the window is over, or the call.",
    "Only over stdio, and only if the operator allows it (" .. launch.SETTING .. ").",
  },
}

-- ---- launch -----------------------------------------------------------------------------------------------------------------------

-- A refused call does nothing, so nobody is asked about it.
local function risk(ctx, args)
  if args.launch and not launch.refusal(ctx) then return LAUNCH_RISK end
  return "low"
end

local function plain(value) return type(value) == "string" and #value <= MAX_TEXT and not value:find("%z") end

local function check_launch(spec)
  local function bad(name, message) return nil, errors.invalid("launch." .. name, message) end
  if not plain(spec.fileName) or spec.fileName == "" then
    return bad("fileName", "launch.fileName must be the path or name of a program.")
  end
  if #(spec.arguments or {}) > MAX_ARGUMENTS then return bad("arguments", ("launch.arguments: at most %d."):format(MAX_ARGUMENTS)) end
  for _, word in ipairs(spec.arguments or {}) do
    if not plain(word) then return bad("arguments", "launch.arguments must be texts without a NUL.") end
  end
  if spec.workingDirectory and not plain(spec.workingDirectory) then
    return bad("workingDirectory", "launch.workingDirectory must be a path.")
  end
  local n = 0
  for name, value in pairs(spec.environmentVariables or {}) do
    n = n + 1
    if not plain(name) or name == "" or name:find("=", 1, true) or not plain(value) then
      return bad("environmentVariables", "launch.environmentVariables must map names to texts.")
    end
  end
  if n > MAX_VARIABLES then return bad("environmentVariables", ("launch.environmentVariables: at most %d."):format(MAX_VARIABLES)) end
  if spec.connectTimeoutSeconds and spec.connectTimeoutSeconds > MAX_CONNECT_S then
    return bad("connectTimeoutSeconds", ("launch.connectTimeoutSeconds: 1 to %d."):format(MAX_CONNECT_S))
  end
  return true
end

local function check(args)
  if args.launch and args.traceFilePath then
    return nil, errors.invalid("launch", "launch starts a program; it does not go with a recorded file (traceFilePath).")
  end
  if args.launch then return check_launch(args.launch) end
  return true
end

local function launched_source(ctx, spec)
  local no = launch.refusal(ctx)
  if no then return nil, no end
  local argv = { spec.fileName }
  for _, word in ipairs(spec.arguments or {}) do argv[#argv + 1] = word end
  local started, err = launch.start {
    argv = argv, cwd = spec.workingDirectory, env = spec.environmentVariables, console = "log", owned = true,
    connect_s = spec.connectTimeoutSeconds,
  }
  if not started then return nil, err end
  local target
  target, err = process.resolve(ctx, started.process_id)
  if not target then
    started:finish()
    return nil, err
  end
  return { launched = started, target = target } -- no `process`: it is gone when the answer is read
end

local function source(ctx, args)
  if args.launch then return launched_source(ctx, args.launch) end
  return collector.source(ctx, args)
end

-- ---- collecting -------------------------------------------------------------------------------------------------------------------

local function launch_notes(notes, started, ended, summary)
  local how = started.exit and launch.ending(started.exit)
  if started.waits_elsewhere and summary.events == 0 then
    notes[#notes + 1] = ("HeldElsewhere: nothing of the program ran, since its DOTNET_DiagnosticPorts names a port of somebody else at "
      .. "which it waits until they let it go on (%s). Leave that out, or add \",nosuspend\" to it.")
      :format(text.quote(started.waits_elsewhere))
  end
  if ended then
    notes[#notes + 1] = ("ProgramEnded: %s ended by itself within the window, %s."):format(started.name, how or "it is not known how")
  else
    notes[#notes + 1] = ("ProgramStopped: %s was ended when the window was over, %s."):format(started.name,
      how or "and did not end in time")
  end
  if started.n_others and started.n_others > 0 then
    notes[#notes + 1] = ("OtherRuntimes: the program started %d more .NET process%s, which ran on unobserved. Launch the one that matters "
      .. "itself."):format(started.n_others, started.n_others == 1 and "" or "es")
  end
end

local function di_notes(notes, artifact, recorded)
  if artifact.di_count == 0 then
    notes[#notes + 1] = "NoDependencyInjection: no such event came: the program did not build or use a container of "
      .. "Microsoft.Extensions.DependencyInjection in the window" .. (recorded and ", or that source was not recorded." or ".")
  elseif not artifact.launched and artifact.di_counts.ServiceProviderBuilt then
    notes[#notes + 1] = "ContainersToldAgain: containers that live already tell ServiceProviderBuilt and ServiceProviderDescriptors again "
      .. "when a session begins; they need not have been built in the window."
  end
end

local function cap_notes(notes, artifact)
  local kept = {
    { "assembly loads", artifact.assembly_count, #artifact.assemblies }, { "module loads", artifact.module_count, #artifact.modules },
    { "DI events", artifact.di_count, #artifact.di },
  }
  for _, row in ipairs(kept) do
    if row[2] > row[3] then
      notes[#notes + 1] = ("Truncated: the first %d of %d %s are kept; the counts are of all."):format(row[3], row[2], row[1])
    end
  end
end

local function collect(ctx, from, args)
  local started = from.launched
  local watched = started or from.process and launch.of(from.process.pid) -- by lunette run, which ends it not
  local from_start = watched ~= nil and watched:is_held()
  local result, err = probe.run(ctx, program.program(), {
    process = started and from.target or from.process, path = from.path, duration_ms = args.durationSeconds * 1000,
    buffer_mb = program.BUFFER_MB, save_to = args.save_to,
    message = started and "Watching the program start" or "Collecting startup events",
  })
  if started and result and result.window.ended == "stream-end" then started.ending:await(ENDING_MS) end
  local by_itself = started and started.exit ~= nil
  if started then started:finish() end
  if not result then return nil, err end
  local artifact = program.artifact(result)
  artifact.process_id = started and started.process_id or from.process and from.process.pid or result.window.summary.pid or 0
  artifact.started_unix_ms = result.window.started_unix_ms
  artifact.duration_ms = from.path and (result.window.summary.duration_ns or 0) / 1e6 or result.window.elapsed_ms
  artifact.launched, artifact.program, artifact.cost = from_start, watched and watched.name, measured.price(result.cost)
  artifact.origin = started and "trace" or nil -- what is kept outlives the program
  local notes = { PRE_ATTACH[artifact.launched], STATICS }
  for _, note in ipairs(result.notes) do notes[#notes + 1] = note end
  if started then launch_notes(notes, started, by_itself, result.window.summary) end
  measured.none_recorded(notes, from, artifact.assembly_count + artifact.module_count, "load of an assembly or module",
    "the runtime's keyword Loader (0x8)")
  di_notes(notes, artifact, from.path ~= nil)
  cap_notes(notes, artifact)
  artifact.notes = notes
  return artifact
end

-- ---- the answer ---------------------------------------------------------------------------------------------------------------------

local ORDER <const> = { __order = {
  "processId", "startedAt", "duration", "launched", "assemblyLoadCount", "moduleLoadCount", "diEventCount", "diEventCounts",
  "diActivitySpan", "serviceProviders", "assemblies", "modules", "diEvents", "timeline", "notes", "cost",
} }

local function inline(artifact, args)
  local summary = args.depth == "Summary"
  local limit = summary and SUMMARY_ROWS or DETAIL_ROWS
  local notes, span = { table.unpack(artifact.notes) }, rows.di_span_ms(artifact)
  local entries = rows.timeline_length(artifact)
  if entries > 0 and (summary or entries > limit) then
    notes[#notes + 1] = ("Inline: the first %d of each list%s; all are behind the handle: query_snapshot(view=\"assemblies\", \"modules\", "
      .. "\"di\" or \"timeline\", topN=N)."):format(limit, summary and ", and no timeline" or "")
  end
  return setmetatable({
    processId = artifact.process_id, startedAt = numbers.iso(artifact.started_unix_ms), duration = numbers.timespan(artifact.duration_ms),
    launched = artifact.launched, assemblyLoadCount = artifact.assembly_count, moduleLoadCount = artifact.module_count,
    diEventCount = artifact.di_count, diEventCounts = artifact.di_counts,
    diActivitySpan = span and numbers.timespan(span), serviceProviders = rows.containers(artifact, limit),
    assemblies = rows.assemblies(artifact, limit), modules = rows.modules(artifact, limit), diEvents = rows.di(artifact, limit),
    timeline = summary and json.array({}) or rows.timeline(artifact, limit), notes = json.array(notes), cost = artifact.cost,
  }, ORDER)
end

local function services_of(artifact)
  local n = 0
  for _, c in ipairs(artifact.containers) do n = n + c.singletons + c.scoped + c.transients end
  if #artifact.containers == 0 then return "" end
  return (" (%d container%s with %d services)"):format(#artifact.containers, #artifact.containers == 1 and "" or "s", n)
end

local function summary(artifact)
  local what = artifact.program and ("%s, started as process %d"):format(artifact.program, artifact.process_id)
    or ("process %d"):format(artifact.process_id)
  return ("%d assemblies and %d modules loaded, %d DependencyInjection events%s in %s over %s."):format(artifact.assembly_count,
    artifact.module_count, artifact.di_count, services_of(artifact), what, numbers.span(artifact.duration_ms))
end

return collector {
  kind = "startup", handle = "startup-snapshot", risk = risk, max_risk = LAUNCH_RISK, data_field = "startup", payload = "StartupSnapshot",
  check = check, source = source, collect = collect, inline = inline, summary = summary,
}
