-- SPDX-License-Identifier: MIT
-- collector: what collect_events can collect. A file in lua/collectors/ declares one kind: how its window is collected, what of it is
-- answered inline, and what stands out. Where the events come from, the handle and the envelope are the same for all, and done here.
local lazy = require("lunette.lazy")
local declaration = lazy("lunette.probe.declaration")
local declare = require("lunette.declare")
local errors = require("lunette.errors")
local faults = require("lunette.faults")
local next_steps = require("lunette.hints")
local handles = require("lunette.handles")
local json = require("lunette.json")
local log = require("lunette.log")
local loop = require("lunette.loop")
local numbers = require("lunette.numbers")
local probe = require("lunette.probe")
local proc = require("lunette.proc")
local process = require("lunette.process")
local recordings = require("lunette.recordings")
local rules = require("lunette.rules.index")
local signal = require("lunette.signal")

local M = {}

---@class CollectorSource
---@field process table?   a live process, of lunette.process
---@field path string?     or a recorded file

---@class Collector
---@field kind string             the `kind` of collect_events
---@field handle string           the kind of the handle, see lunette.kinds
---@field risk "low"|"moderate"|"high"|fun(ctx: table, args: table): string|table
---@field max_risk? string|table   with a risk that is a function: the highest
---@field scopes? table|function  default { "eventpipe" }
---@field data_field string       where the payload is in the answer's data
---@field payload string          its record in the contract
---@field check? fun(args: table): boolean?, table?   nil, err for arguments that cannot be; before anything is opened
---@field source? fun(ctx: table, args: table): CollectorSource?, table?   default: processId or traceFilePath
---@field collect fun(ctx: table, source: CollectorSource, args: table): table?, table?
---  The artifact, or nil, err. It is never changed once made. Its fields process_id, started_unix_ms, duration_ms and notes are
---  read by the framework; origin is set by it.
---@field inline fun(artifact: table, args: table, handle: table): table   the payload of the answer, by args.depth
---@field summary fun(artifact: table, source: CollectorSource, args: table): string   one sentence
---@field signals? fun(artifact: table, handle_id: string): table[]
---@field hints? fun(artifact: table, handle_id: string, pid: integer?, args: table): table[]

--- Where the events come from: { process = … } or { path = … }.
---@return CollectorSource?, table? err
function M.source(ctx, args)
  if args.traceFilePath then
    local path, err = recordings.resolve(ctx, args.traceFilePath)
    if not path then return nil, err end
    return { path = path }
  end
  local found, err = process.resolve(ctx, args.processId)
  if not found then return nil, err end
  return { process = found }
end

--- Where a capture of the kernel looks: a process, with or without a diagnostics socket that can be used.
---@return CollectorSource?, table? err
function M.kernel_source(ctx, args)
  local found, err = process.without_socket(ctx, args.processId)
  if not found then return nil, err end
  return { process = found }
end

local function misgiven(declared, what, wanted)
  local message = ("The collector %s: %s must give %s. The script is at fault; the server goes on."):format(declared.kind, what, wanted)
  local err = errors.new("Internal", message, { detail = "ScriptError", hints = {} })
  err.is_bug = true
  return nil, err
end

-- What is wrong with where the events come from, as a script may say it; nil when nothing is.
local function fault_of_source(source, needed)
  if type(source) ~= "table" then return "a table" end
  if source.path ~= nil then
    return not recordings.is_resolved(source.path) and "a path that lunette.collector.source(ctx, args) gave in this call" or nil
  end
  local live = source.process
  if live == nil and not needed then return nil end
  return not (type(live) == "table" and math.type(live.pid) == "integer") and "{ process = … } or { path = … }" or nil
end

local function fail_part(declared, what, text)
  log.error("collector", "a part of a collector failed", { kind = declared.kind, part = what, error = text })
  faults.add(("'%s' of the collector %s"):format(what, declared.kind), text)
end

-- What a part of a declaration gives that an answer can do without; nil when it failed, which the answer tells.
local function optional(declared, what, ...)
  if not declared[what] then return nil end
  local value, err = declared[what](...)
  if value == nil and type(err) == "table" then fail_part(declared, what, faults.text(err)) end
  return value
end

-- As optional, for a list whose elements have a shape: one that has not costs the list.
local function optional_list(fault_of, declared, what, ...)
  local list = optional(declared, what, ...)
  if list == nil then return nil end
  if type(list) ~= "table" then return fail_part(declared, what, "it must give a list, not a " .. type(list)) end
  for i, one in ipairs(list) do
    local why = fault_of(one)
    if why then return fail_part(declared, what, ("its element %d %s"):format(i, why)) end
  end
  return list
end

local HANDLE_ENDED <const> = "HandleEnded: the process has ended, and the handle with it: what is to be seen is in this answer (topN and "
  .. "depth=Detail, where the kind has them, put more into it); the lunette command on the machine itself keeps views of ended processes."
local UNREACHABLE <const> = { ProcessNotFound = true, EndpointUnavailable = true }

-- Whether a process is gone, or has ended and only its parent has not asked for it yet.
local function is_gone(target)
  local now = proc.stat(target.pid)
  return not now or now.state == "Z" or now.state == "X" or target.start_time ~= nil and now.start_time ~= target.start_time
end

-- A process that was there when the call began, and is not any more, has ended: that is no mistake of who asks.
local function ended_since(source, err)
  local target = source.process
  if not target or type(err) ~= "table" or not UNREACHABLE[err.kind] or not is_gone(target) then return err end
  return errors.new("ProcessExited", ("Process %d ended before its session was open."):format(target.pid),
    { detail = tostring(target.pid), hints = err.hints })
end

local function is_noted(notes, pattern)
  for _, note in ipairs(notes) do
    if type(note) == "string" and note:find(pattern) then return true end
  end
  return false
end

-- A hint that names a process which has ended: what is for its successor, too, goes without the number; the others do not go.
local function for_successor(hint)
  if hint.nextTool ~= "collect_process_dump" then return nil end
  local arguments = {}
  for name, value in pairs(hint.suggestedArguments) do arguments[name] = name ~= "processId" and value or nil end
  local other = setmetatable({ suggestedArguments = arguments }, getmetatable(hint))
  for key, value in pairs(hint) do other[key] = rawget(other, key) or value end
  return other
end

--- Whether a process of lunette.process has ended since it was found.
M.is_gone = is_gone

--- Hints without those at a process that has ended.
---@param hints table[]?
---@param pid integer
---@return table[]
function M.without_ended(hints, pid)
  local others = {}
  for _, hint in ipairs(hints or {}) do
    local at_it = (hint.suggestedArguments or {}).processId == pid
    if at_it then others[#others + 1] = for_successor(hint) else others[#others + 1] = hint end
  end
  return others
end

-- Nobody is sent to a process that ended within the window, nor to its handle where that has ended, too.
local function tell_of_end(artifact, handle, hints, live)
  local is_over = artifact.process_gone and handles.ended_with_process(handle)
  local gone = live and (artifact.process_gone or is_noted(artifact.notes, "^ProcessEnded:")) and is_gone(live) and live.pid or nil
  if not is_over and not gone then return hints end
  local others = {}
  for _, hint in ipairs(hints or {}) do
    if not (is_over and (hint.suggestedArguments or {}).handle == handle.id) then others[#others + 1] = hint end
  end
  return gone and M.without_ended(others, gone) or others
end

-- The hint at a dump after a crash is for the next crash, too, and says so.
local function is_for_next_crash(hint) return hint.nextTool == "collect_process_dump" end

-- The hints after a capture: those of the product and of scripts, without what leads to a process that is not the one.
local function hints_of(declared, capture, own, source, args, handle)
  local list = rules.hints(handle.kind, capture, own)
  if not source.path then return tell_of_end(capture.artifact, handle, list, source.process) end
  local keep = declared.kind == "crash-guard" and is_for_next_crash or nil
  return next_steps.of_recording(list, args.traceFilePath or source.path, declared.kind, keep)
end

-- What a reader of the first sentence must know of the window: the note that says so, and its sentence.
local SAID <const> = {
  { "^TargetStopped:", "The process stands still (SIGSTOP, or a debugger holds it): nothing happens in it.", "stand" },
  { "^ProcessEnded:", "The process ended within the window.", "ended" },
  { "^StreamEnded:", "The event stream ended within the window.", "stream ended" },
  { "^Incomplete: the recording", "The recording stops before its end: what came before is counted.", "stops before" },
  { "^EventsLost:", "Events were lost: counts may be too low.", "lost" },
}

-- The summary, and what its notes have that it must not hide.
local function whole(summary, notes)
  if type(summary) ~= "string" then return nil end
  for _, said in ipairs(SAID) do
    if is_noted(notes, said[1]) and not summary:find(said[3], 1, true) then summary = summary .. " " .. said[2] end
  end
  return summary
end

local function run(declared, ctx, args)
  local source, err = (declared.source or M.source)(ctx, args)
  if not source then return nil, err or "source gave nothing and no reason" end
  local fault = fault_of_source(source, declared.program ~= nil)
  if fault then return misgiven(declared, "source", fault) end
  local artifact
  artifact, err = declared.collect(ctx, source, args)
  if not artifact then return nil, ended_since(source, err) end
  if type(artifact) ~= "table" then return misgiven(declared, "collect", "a table") end
  artifact.notes, artifact.process_id = artifact.notes or {}, artifact.process_id or source.process and source.process.pid or 0
  artifact.duration_ms = artifact.duration_ms or (args.durationSeconds or 0) * 1000
  artifact.started_unix_ms = artifact.started_unix_ms or loop.unix_ms() - artifact.duration_ms // 1
  artifact.origin = artifact.origin or (source.path and "trace" or "live")
  local live = source.process
  local handle = handles.put {
    kind = declared.handle, artifact = artifact, process_id = artifact.process_id, process_start = live and live.start_time,
    origin = artifact.origin, started_unix_ms = artifact.started_unix_ms, duration_ms = artifact.duration_ms,
    collector = {
      tool = declared.tool or "collect_events",
      arguments = { kind = declared.kind, processId = live and live.pid or nil, traceFilePath = args.traceFilePath },
    },
  }
  if artifact.process_gone and handles.ended_with_process(handle) then artifact.notes[#artifact.notes + 1] = HANDLE_ENDED end
  local pid = live and live.pid
  local own_signals = optional_list(signal.fault, declared, "signals", artifact, handle.id)
  local signals = signal.of_capture(handle.kind, artifact, handle.id, own_signals)
  local payload
  payload, err = declared.inline(artifact, args, handle)
  if payload == nil then return nil, err end
  local summary = whole(optional(declared, "summary", artifact, source, args), artifact.notes)
  local own_hints = optional_list(next_steps.fault, declared, "hints", artifact, handle.id, pid, args)
  return payload, {
    summary = summary, process = live, handle = handle, signals = signals,
    hints = hints_of(declared, { artifact = artifact, signals = signals, handle_id = handle.id, process_id = pid }, own_hints, source, args,
      handle),
  }
end

-- ---- what a declaration of reducers needs no code for -----------------------------------------------------------------------------------

local function described(source, result)
  local summary = result.window.summary
  return {
    process_id = source.process and source.process.pid or summary.pid or 0, started_unix_ms = result.window.started_unix_ms,
    duration_ms = source.path and (summary.duration_ns or 0) / 1e6 or result.window.elapsed_ms,
  }
end

--- A program as the engine takes it, from its declaration or from probe.program; nil, why.
local function compiled(program)
  if type(program) == "table" and type(program.keep) == "table" and program.keep[1] then return program end
  return declaration.compile(program)
end

M.compiled = compiled

-- collect of a collector that declares a program.
local function collect_program(declared, fixed)
  return function(ctx, source, args)
    local program, err = fixed
    if not program then
      program, err = declared.program(args)
      if not program then return nil, err end
      program, err = compiled(program)
      if not program then return nil, errors.new("Internal", ("The collector %s: %s"):format(declared.kind, err), { hints = {} }) end
    end
    local result
    result, err = probe.run(ctx, program, {
      process = source.process, path = source.path, duration_ms = args.durationSeconds * 1000, message = "Collecting " .. declared.kind,
    })
    if not result then return nil, err end
    local empty = source.path and M.empty_recording(source.path, result.window.summary)
    if empty then return nil, empty end
    local artifact, rows = described(source, result), nil
    if declared.rows then
      rows, err = declared.rows(result, args)
      if not rows then return nil, err or "rows gave nothing and no reason" end
      if type(rows) ~= "table" then return misgiven(declared, "rows", "a table of fields") end
    end
    for name, value in pairs(rows or {}) do artifact[name] = value end
    for _, node in ipairs(rows and {} or program.keep) do artifact[node.name] = result[node.name] end
    artifact.stacks = artifact.stacks or result.stacks
    artifact.notes, artifact.cost = artifact.notes or result.notes or {}, result.cost
    return artifact
  end
end

local OWN <const> = {
  origin = true, process_id = true, process_start = true, started_unix_ms = true, duration_ms = true, notes = true, cost = true,
}

-- inline of a collector that declares none: the artifact as it is.
local function inline_all(artifact)
  local out = {
    processId = artifact.process_id, startedAt = numbers.iso(artifact.started_unix_ms), duration = numbers.timespan(artifact.duration_ms),
  }
  for name, value in pairs(artifact) do
    if not OWN[name] and type(value) ~= "function" then out[name] = value end
  end
  out.notes = json.array({ table.unpack(artifact.notes or {}) })
  return setmetatable(out, { __order = { "processId", "startedAt", "duration" } })
end

local function at_path(artifact, path)
  local value = artifact
  for name in path:gmatch("[^.]+") do
    if type(value) ~= "table" then return nil end
    local index = math.tointeger(tonumber(name))
    if value[name] == nil and index then value = value[index] else value = value[name] end
  end
  return value
end

local function shown(value)
  if math.type(value) == "float" then return value == math.floor(value) and ("%d"):format(value) or ("%.1f"):format(value) end
  return (value == nil or type(value) == "table") and "?" or tostring(value)
end

-- "{orders.pairs} orders in {duration_s} s." with what the artifact holds.
local function sentence(template)
  return function(artifact)
    local text = template
    if artifact.duration_ms < numbers.SHORT_MS then text = text:gsub("{duration_s} s%f[%W]", numbers.span(artifact.duration_ms)) end
    return (text:gsub("{([%w_.]+)}", function(path)
      if path == "duration_s" then return shown(artifact.duration_ms / 1000) end
      return shown(at_path(artifact, path))
    end))
  end
end

local function complete(declared, at)
  local full = setmetatable({}, { __index = declared })
  full.handle = declared.handle or declared.kind
  if type(full.handle) == "table" then full.handle = full.handle.name end
  local fixed
  if type(declared.program) == "table" then
    local why
    fixed, why = compiled(declared.program)
    if not fixed then declare.fail({ { path = "program", message = why, name = why:match("'([^']+)'") } }, at) end
  end
  full.collect = declared.collect or collect_program(declared, fixed)
  full.inline = declared.inline or inline_all
  full.summary = declared.summary or ("A window of {duration_s} s of " .. declared.kind .. ".")
  if type(full.summary) == "string" then full.summary = sentence(full.summary) end
  return full
end

local function branch_of(declared, full)
  return {
    kind = declared.kind, risk = declared.risk or "low", max_risk = declared.max_risk, scopes = declared.scopes or { "eventpipe" },
    task = true, data_field = declared.data_field or declared.kind, payload = declared.payload, check = declared.check,
    unavailable = declared.unavailable, description = declared.description, run = function(ctx, args) return run(full, ctx, args) end,
  }
end

--- Declares a collector; gives the branch of collect_events (docs/writing-collectors.md).
M.collector = declare.constructor("collector", function(declared, at) return branch_of(declared, complete(declared, at)) end)

--- The branch of another tool of ours that collects in the same way: its name is in `tool`; `unavailable` is that of a branch.
---@param declared Collector
---@return table branch
function M.branch(declared) return branch_of(declared, complete(declared, declare.here())) end

--- What a recording tells that holds no event at all, as an error; nil when it holds some.
---@param path string
---@param summary table   of the source
function M.empty_recording(path, summary)
  if summary.complete or (summary.events or 0) > 0 then return nil end
  return errors.invalid("traceFilePath", ("%s holds no event that can be read: %s."):format(path:match("[^/]+$"),
    summary.incomplete_reason or "it is empty"))
end

return setmetatable(M, { __call = function(_, declared) return M.collector(declared) end })
