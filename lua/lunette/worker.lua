-- SPDX-License-Identifier: MIT
-- worker: runs a job of native/memory in a process of its own, with progress to the client; what goes wrong in it fails this call alone.
local attach = require("lunette.attach")
local errors = require("lunette.errors")
local json = require("lunette.json")
local loop = require("lunette.loop")
local memory = require("lunette.memory")
local proc = require("lunette.proc")
local progress = require("lunette.progress")

local M = {}

M.TIMEOUT_MS = 120000
local HEARTBEAT_MS <const> = 1000

---@class WorkerOptions
---@field timeout_ms? integer   120 s
---@field message? string       what the client is told while nothing more exact is known
---@field no_end? boolean       how long it takes nobody knows: a heartbeat without a total
---@field attach? integer       the process that it stops: no two do at once (Busy)

-- Tells the client how far the worker is, until it has ended.
local function watch(ctx, run, options)
  local last, told_ms = -1, -HEARTBEAT_MS
  while true do
    local now, err = run:progress(HEARTBEAT_MS)
    if not now and not (err and err.kind == "Timeout") then return end
    local value = now and math.floor(now.fraction * (progress.DONE - 1)) or last
    if options.no_end then value = loop.now_ms() - told_ms >= HEARTBEAT_MS and last + 1 or last end
    if value > last and ctx.progress then
      ctx:progress(value, not options.no_end and progress.DONE or nil, now and now.text or options.message)
      last, told_ms = value, loop.now_ms()
    end
  end
end

-- Damaged input is a fault of the file where a file was read.
local DAMAGED <const> = { TruncatedInput = true, MalformedInput = true, InvalidArgument = true }

-- What reading a process fails with when it ends meanwhile: whatever was looked at is not there, or is another's.
local BY_AN_END <const> = {
  TruncatedInput = true, MalformedInput = true, IoError = true, NotFound = true, PermissionDenied = true, ProcessNotFound = true,
  UnsupportedRuntime = true, NotADotnetProcess = true, Internal = true,
}

local function has_ended(args)
  local stat = proc.stat(args.pid)
  return not stat or stat.state == "Z" or stat.state == "X" or args.startTicks and args.startTicks ~= "0"
    and tostring(stat.start_time) ~= args.startTicks
end

local function explained(err, args)
  if args.dumpFilePath and DAMAGED[err.kind] then return errors.invalid("dumpFilePath", tostring(err.message) .. ".") end
  if args.pid and BY_AN_END[err.kind] and has_ended(args) then
    return errors.new("ProcessExited", ("Process %d ended while it was looked at."):format(args.pid),
      { detail = tostring(err.message), process_id = args.pid })
  end
  return err
end

--- Runs a job. The result is what it wrote: ask it for text(), or hand it to a native module.
---@param ctx table
---@param job string
---@param args table       becomes one JSON object
---@param options? WorkerOptions
---@return table? result
---@return LunetteError?
function M.run(ctx, job, args, options)
  options = options or {}
  local timeout_ms = options.timeout_ms or M.TIMEOUT_MS
  local permit, err
  if options.attach then
    permit, err = attach.enter(options.attach)
    if not permit then return nil, err end
  end
  local held <close> = permit -- luacheck: ignore 211
  local sent = { timeoutMs = timeout_ms }
  for k, v in pairs(args) do sent[k] = v end
  local run <close>, problem = memory.start { job = job, args = json.encode(sent), timeout_ms = timeout_ms }
  if not run then return nil, problem end
  local teller = ctx and loop.spawn(watch, ctx, run, options)
  local result
  result, err = run:wait()
  if teller then teller:cancel("the job has ended") end
  if not result then return nil, explained(err, args) end
  return result
end

--- Runs a job whose result is JSON, and reads it.
---@return table?, LunetteError?
function M.json(ctx, job, args, options)
  local result <close>, err = M.run(ctx, job, args, options)
  if not result then return nil, err end
  local text
  text, err = result:text()
  if not text then return nil, err end
  return json.decode(text)
end

--- The arguments that name a process or a dump, and the options of its attach.
---@param source { process: table?, dump: string? }
function M.target(source)
  if source.dump then return { dumpFilePath = source.dump }, {} end
  return { pid = source.process.pid, startTicks = tostring(source.process.start_time or 0) }, { attach = source.process.pid }
end

return M
