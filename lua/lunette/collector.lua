-- SPDX-License-Identifier: MIT
-- collector: what collect_events can collect. A file in lua/collectors/ declares one kind: how its window is collected, what of it is
-- answered inline, and what stands out. Where the events come from, the handle and the envelope are the same for all, and done here.
local errors = require("lunette.errors")
local handles = require("lunette.handles")
local process = require("lunette.process")
local recordings = require("collectors.recordings")

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

local NEEDED <const> = {
  kind = "string", handle = "string", data_field = "string", payload = "string",
  collect = "function", inline = "function", summary = "function",
}

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

local function run(declared, ctx, args)
  local source, err = (declared.source or M.source)(ctx, args)
  if not source then return nil, err end
  local artifact
  artifact, err = declared.collect(ctx, source, args)
  if not artifact then return nil, err end
  artifact.origin = artifact.origin or (source.path and "trace" or "live")
  local live = source.process
  local handle = handles.put {
    kind = declared.handle, artifact = artifact, process_id = artifact.process_id, process_start = live and live.start_time,
    origin = artifact.origin, started_unix_ms = artifact.started_unix_ms, duration_ms = artifact.duration_ms,
    collector = {
      tool = "collect_events",
      arguments = { kind = declared.kind, processId = live and live.pid or nil, traceFilePath = args.traceFilePath },
    },
  }
  return declared.inline(artifact, args, handle), {
    summary = declared.summary(artifact, source, args), process = live, handle = handle,
    signals = declared.signals and declared.signals(artifact, handle.id) or nil,
    hints = declared.hints and declared.hints(artifact, handle.id, live and live.pid, args) or nil,
  }
end

--- Declares a collector; gives the branch of collect_events.
---@param declared Collector
function M.collector(declared)
  for name, wanted in pairs(NEEDED) do
    if type(declared[name]) ~= wanted then error(("collector: '%s' must be a %s"):format(name, wanted), 2) end
  end
  return {
    kind = declared.kind, risk = declared.risk or "low", max_risk = declared.max_risk, scopes = declared.scopes or { "eventpipe" },
    task = true, data_field = declared.data_field, payload = declared.payload, check = declared.check,
    run = function(ctx, args) return run(declared, ctx, args) end,
  }
end

--- What a recording tells that holds no event at all, as an error; nil when it holds some.
---@param path string
---@param summary table   of the source
function M.empty_recording(path, summary)
  if summary.complete or (summary.events or 0) > 0 then return nil end
  return errors.invalid("traceFilePath", ("%s holds no event that can be read: %s."):format(path:match("[^/]+$"),
    summary.incomplete_reason or "it is empty"))
end

return setmetatable(M, { __call = function(_, declared) return M.collector(declared) end })
