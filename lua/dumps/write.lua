-- SPDX-License-Identifier: MIT
-- write: has a runtime write a dump of its process, and brings the file below the artifact root. The runtime's createdump runs as the
-- target's user in the target's mount namespace, so it writes into a folder where both may (native/artifacts/stage.c). A dump that was
-- begun cannot be stopped: when the caller goes away, the folder is removed.
local able = require("dumps.able")
local artifacts = require("lunette.artifacts")
local attach = require("lunette.attach")
local errors = require("lunette.errors")
local estimate = require("dumps.estimate")
local forks = require("dumps.forks")
local hints = require("lunette.hints")
local ipc = require("lunette.ipc")
local log = require("lunette.log")
local loop = require("lunette.loop")
local numbers = require("lunette.numbers")
local proc = require("lunette.proc")
local standing = require("dumps.standing")
local store = require("artifacts.store")
local text = require("lunette.text")
local whole = require("dumps.whole")

local M = {}

M.TICK_MS = 1000 -- between reports of progress
local TYPES <const> = { Mini = 1, WithHeap = 2, Triage = 3, Full = 4 }
local PART <const> = ".part" -- behind the name while it is written
local REPORT <const> = ".crashreport.json"
local RESERVE_BYTES <const> = 64 * 1024 * 1024 -- that a file system keeps
local NS_PER_MS <const> = 1000000
local TRIES <const> = 100
local ORDER <const> = { __order = {
  "processId", "dumpType", "filePath", "fileSizeBytes", "createdAt", "crashReportPath", "durationMs", "notes" } }

--- The name of a new dump: dump_pid<pid>_<type>_<time>.dmp; one of the same second gets a number.
local function name_of(folder, pid, type, at_ms)
  local stem = ("dump_pid%d_%s_%s"):format(pid, type, os.date("!%Y%m%dT%H%M%SZ", at_ms // 1000))
  for i = 1, TRIES do
    local name = ("%s%s.dmp"):format(stem, i > 1 and "-" .. i or "")
    if not artifacts.name(store.root(), folder == "" and name or folder .. "/" .. name) then return name end
  end
  return stem .. "-" .. loop.now_ns() .. ".dmp"
end
M.name_of = name_of

--- Why a process gives no dump of a type, as an error; nil when it may.
---@param target TargetProcess
---@param type string
function M.unsupported(target, type)
  local runtime = target.endpoint and target.endpoint.runtime
  local ok, reason = able.able(target.pid, runtime)
  local full_only = ok and type ~= "Full" and (runtime == "NativeAot" and "NativeAOT writes full dumps only"
    or runtime == "CoreClr" and able.is_single_file(target.pid) and able.SINGLE_FILE)
  if ok and not full_only then return nil end
  local steps = { hints.new("collect_thread_snapshot", "See its native stacks.", { processId = target.pid }) }
  if ok then
    reason = full_only
    steps[1] = hints.new("collect_process_dump", "Ask for a full one.", { processId = target.pid, dumpType = "Full" })
  end
  return errors.not_supported(("Process %d gives no %s dump: %s."):format(target.pid, type, reason), steps)
end

local function no_room(type, needed, free, where)
  return errors.new("Conflict", ("There is no room for the dump: %s needs about %s, and %s has %s free. Take a smaller type, make room, or "
    .. "set MCP_ARTIFACT_ROOT to a larger file system."):format(type, text.bytes(needed), where, text.bytes(free)),
    { detail = "InsufficientDiskSpace", hints = { hints.new("get_bytes", "See what can be removed.", { kind = "list" }) } })
end

-- It fitted when it was begun.
local function filled_up(plan)
  return errors.new("Conflict", ("The file system became full while the %s dump was written; nothing of it is kept. Take a smaller type, "
    .. "or make room."):format(plan.type), { detail = "InsufficientDiskSpace", hints = {
      hints.new("get_bytes", "See what can be removed.", { kind = "list" }) } })
end

-- createdump's failure in the words of the contract.
local function failed(err, target, plan)
  if err.detail == "InsufficientDiskSpace" then return filled_up(plan) end
  if err.kind ~= "IoError" and err.kind ~= "NotSupported" then return err end
  local said = tostring(err.message)
  if said:find("No space left", 1, true) or said:find("quota exceeded", 1, true) then return filled_up(plan) end
  if target.endpoint and target.endpoint.runtime == "NativeAot" then
    return errors.not_supported(("Process %d wrote no dump. %s."):format(target.pid, able.NATIVE_AOT:format(target.pid)), {})
  elseif err.kind == "IoError" then
    local refused = said:find("[Pp]ermission denied") or said:find("[Oo]peration not permitted")
    err.kind = refused and "PermissionDenied" or "EndpointUnavailable"
    err.detail = "DumpFailed"
  end
  return err
end

---@class DumpPlan
---@field type string
---@field folder string           below the root
---@field name string             of the file
---@field path string             of the file, in the end
---@field estimated_bytes integer?
---@field free_bytes integer?     below the root

--- What a dump would be: where, about how large, and how much room there is. nil, err when there is too little.
---@param target TargetProcess
---@param options { type: string, folder: string }
---@return DumpPlan?, table? err
function M.plan(target, options)
  local free, err = artifacts.free(store.root())
  if err then return nil, err end
  local name = name_of(options.folder, target.pid, options.type, loop.unix_ms())
  local plan = {
    type = options.type, folder = options.folder, name = name, estimated_bytes = estimate.bytes(target.pid, options.type),
    free_bytes = free,
  }
  plan.path = store.path(options.folder == "" and name or options.folder .. "/" .. name)
  if free and plan.estimated_bytes and plan.estimated_bytes + RESERVE_BYTES > free then
    return nil, no_room(options.type, plan.estimated_bytes, free, "the artifact root")
  end
  return plan
end

-- A process has one tracer, and createdump would be a second.
local function traced(target, tracer)
  return errors.new("PermissionDenied", ("Process %d is traced by process %d already: end that debugger, profiler or other worker, or ask "
    .. "again when it is done."):format(target.pid, tracer), { detail = "Traced", hints = {
      hints.new("inspect_process", "Find what forbids the attach, with the fix.", { view = "preflight", processId = target.pid }, "high"),
    } })
end

local function open_stage(target, plan)
  local status, err = proc.status(target.pid)
  if not status then return nil, err end
  if (status.tracer_pid or 0) > 0 then return nil, traced(target, status.tracer_pid) end
  local stage
  stage, err = artifacts.stage {
    pid = target.pid, uid = status.euid or status.uid, root = store.root(), folder = plan.folder, folders = able.folders(target.pid),
  }
  if not stage then return nil, err.kind == "InvalidArtifactPath" and store.about(err, "outputDirectory") or err end
  local free = stage.free_bytes
  if not stage.direct and free and plan.estimated_bytes and plan.estimated_bytes + RESERVE_BYTES > free then
    stage:close()
    return nil, no_room(plan.type, plan.estimated_bytes, free, "the folder in which the process can write")
  end
  return stage
end

-- The file is there although nobody waits for it any more.
local function unwanted(plan)
  local name = plan.folder == "" and plan.name or plan.folder .. "/" .. plan.name
  artifacts.remove(store.root(), name)
  artifacts.remove(store.root(), name .. REPORT)
end

local function take(job, stage, part, plan)
  if not stage:size(part) then
    return nil, errors.new("EndpointUnavailable", ("The runtime of process %d answered that the dump is written, and there is none. Look "
      .. "at the target's standard error; a single-file program of 8.0 or 9.0 can write type Full only."):format(job.target.pid),
      { detail = "NoFile", hints = {
        hints.new("collect_process_dump", "A full dump is written by any program.", { processId = job.target.pid, dumpType = "Full" }),
      } })
  end
  local file, err = stage:take(part, plan.name)
  if not file then return nil, err end
  local report = stage:size(part .. REPORT) and stage:take(part .. REPORT, plan.name .. REPORT)
  return file, report and plan.path .. REPORT or nil
end

-- The runtime's answer; what it may leave behind is looked after.
local function ask(pid, what)
  local single, stood = able.is_single_file(pid), standing.stands(pid) ~= nil
  if single then forks.end_stale(pid) end -- it would answer in the place of the process
  local mark = single and forks.mark(pid)
  local watch = not stood and loop.spawn(standing.watch, pid)
  local forked = mark and loop.spawn(forks.watch, mark)
  local form, err = ipc.dump(pid, what)
  if watch then watch:cancel("the runtime has answered") end
  if forked then forked:cancel("the runtime has answered") end
  if not form and not stood then standing.release(pid) end
  if mark then forks.end_left(mark) end
  return form, err
end

-- Whatever failed, failed for that.
local function of_its_end(err, target)
  local stat = proc.stat(target.pid)
  if err.kind == "Cancelled" or stat and stat.state ~= "Z" and stat.state ~= "X" then return err end
  return errors.new("ProcessExited", ("Process %d ended while its dump was written; nothing of it is kept."):format(target.pid),
    { detail = tostring(err.message), process_id = target.pid })
end

-- The part of the work that goes on when the caller is gone: it owns the stage.
local function work(job, permit, stage, plan, crash_report)
  local held <close> = permit -- luacheck: ignore 211
  local _ <close> = stage
  local part = plan.name .. PART
  stage:own(part)
  stage:own(part .. REPORT)
  local inside = (stage.path .. "/" .. part):gsub("%%", "%%%%") -- createdump expands %p and the like
  local form, err = ask(job.target.pid, { path = inside, type = TYPES[plan.type], crash_report = crash_report })
  if job.abandoned then return nil end
  if not form then return nil, failed(err, job.target, plan) end
  local file, report = take(job, stage, part, plan)
  if file and not whole.is_whole(plan.path) then
    unwanted(plan)
    local said = ("The program that wrote the dump of process %d ended before it was done; nothing of it is kept. It may have been killed, "
      .. "for its memory for example: ask again, or for a smaller type."):format(job.target.pid)
    file, report = nil, errors.new("EndpointUnavailable", said, { detail = "DumpFailed" })
  end
  if not file then
    standing.release(job.target.pid) -- the runtime says yes when createdump was killed
    return nil, report
  end
  if job.abandoned then
    unwanted(plan)
    return nil
  end
  return { file = file, report = report, form = form }
end

local function report_progress(ctx, job, stage, plan)
  local part = plan.name .. PART
  while loop.sleep_ms(M.TICK_MS) and not job.over do
    local size = stage:size(part) or 0
    local done = plan.estimated_bytes and math.min(99, size * 100 // math.max(1, plan.estimated_bytes))
    ctx:progress(done or size, done and 100 or nil, ("Writing the dump: %s%s"):format(text.bytes(size),
      plan.estimated_bytes and " of about " .. text.bytes(plan.estimated_bytes) or ""))
  end
end

local function result_of(target, plan, done, started_ms)
  local notes = {}
  if done.file.copied then
    notes[1] = "The process wrote the file on another file system, or in its own mount namespace; it was copied below the artifact root."
  end
  if plan.wants_report and not done.report then notes[#notes + 1] = "The runtime wrote no crash report." end
  return setmetatable({
    processId = target.pid, dumpType = plan.type, filePath = plan.path, fileSizeBytes = done.file.size,
    createdAt = numbers.iso(done.file.mtime_ns // NS_PER_MS), crashReportPath = done.report,
    durationMs = loop.now_ms() - started_ms, notes = #notes > 0 and require("lunette.json").array(notes) or nil,
  }, ORDER)
end

--- Writes the dump of a plan.
---@param ctx table
---@param target TargetProcess
---@param plan DumpPlan
---@param crash_report? boolean
---@return table? result, table? err   a DumpResult
function M.write(ctx, target, plan, crash_report)
  local permit, err = attach.enter(target.pid) -- createdump attaches to its process, and it has one tracer at a time
  if not permit then return nil, err end
  local stage
  stage, err = open_stage(target, plan)
  if not stage then
    permit:release()
    return nil, err
  end
  plan.wants_report = crash_report
  local job, started_ms = { target = target }, loop.now_ms()
  local worker = loop.spawn(work, job, permit, stage, plan, crash_report)
  local ticker = loop.spawn(report_progress, ctx, job, stage, plan)
  loop.on_cleanup(function() -- also when the caller is gone
    if job.over then return end
    job.abandoned, job.over = true, true
    ticker:cancel("the caller is gone")
    stage:close() -- a createdump that still gathers finds no place to write
    log.notice("dumps", "a dump that nobody waits for is given up", { pid = target.pid })
  end)
  local done
  done, err = worker:await()
  if not done and loop.cancelled() and not worker:done() then return nil, err end -- the cleanup tells the worker
  job.over = true
  ticker:cancel("done")
  if not done then return nil, of_its_end(err, target) end
  return result_of(target, plan, done, started_ms)
end

return M
