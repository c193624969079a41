-- SPDX-License-Identifier: MIT
-- collect_process_dump: the runtime writes a dump of its process below the artifact root, once a person has agreed: asked by the client
-- where it can ask, else by a second call with confirm=true.
local lazy = require("lunette.lazy")
local captures = require("lunette.captures")
local errors = require("lunette.errors")
local hints = require("lunette.hints")
local process = require("lunette.process")
local store = lazy("artifacts.store")
local text = require("lunette.text")
local tool = require("lunette.tool")
local write = lazy("dumps.write")

local ORDER <const> = { __order = { "kind", "message", "targetPid", "dumpType", "outputDirectory", "dump" } }
local APPROVE <const> = {
  type = "object", required = require("lunette.json").array({ "approve" }),
  properties = { approve = { type = "boolean", title = "Approve", description = "Write this dump." } },
}
local HOLDS <const> = {
  Mini = "It holds the stacks of all threads, and strings on them.", Triage = "It holds the stacks of all threads, without most strings.",
  WithHeap = "It holds the whole managed heap: user data, tokens and passwords.",
  Full = "It holds the whole memory of the process: user data, tokens and passwords.",
}

local function result(kind, target, args, more)
  local r = setmetatable({
    kind = kind, targetPid = target.pid, dumpType = args.dumpType, outputDirectory = args.outputDirectory,
  }, ORDER)
  for k, v in pairs(more) do r[k] = v end
  return r
end

local function cost_of(plan)
  local size = plan.estimated_bytes and "about " .. text.bytes(plan.estimated_bytes) or "an unknown number of bytes"
  return ("%s%s"):format(size, plan.free_bytes and (" of %s free"):format(text.bytes(plan.free_bytes)) or "")
end

local function question(target, args, plan)
  local named = target.record and target.record.managedEntrypointAssemblyName
  return ("Write a %s dump of process %d%s to %s? It takes %s on the disk, and the process stands still while it is written. %s"):format(
    args.dumpType, target.pid, named and (" (%s)"):format(named) or "", plan.path, cost_of(plan), HOLDS[args.dumpType])
end

local function declined(target, args)
  return result("approval_declined", target, args, { message = "The dump was declined; nothing was written." }), {
    summary = ("The %s dump of process %d was declined; nothing was written."):format(args.dumpType, target.pid), process = target,
  }
end

local function preview(target, args, plan)
  local message = ("Writes a %s dump of process %d to %s: %s on the disk, and the process stands still while it is written. %s Show this "
    .. "to a person; when they agree, call again with confirm=true."):format(args.dumpType, target.pid, plan.path, cost_of(plan),
    HOLDS[args.dumpType])
  local again = {
    processId = target.pid, dumpType = args.dumpType, outputDirectory = args.outputDirectory, confirm = true,
    crashReport = args.crashReport or nil,
  }
  return result("confirmation_required", target, args, { message = message }), {
    summary = ("Nothing was written: a %s dump of process %d (%s) needs confirm=true."):format(args.dumpType, target.pid, cost_of(plan)),
    process = target, hints = { hints.new("collect_process_dump", "Write it, once a person has agreed.", again) },
  }
end

-- The answer that stops the call, with its extras; or nil when a person agreed; or nil, nil, err.
local function approval(ctx, target, args, plan)
  if ctx:can("elicitation") then -- whatever confirm says: it is no way round a person
    -- the client may come back with the answer in a request of its own: about this process, not whichever is alone by then
    ctx.state.dump = { pid = target.pid, start_time = tostring(target.start_time) }
    local answer, err = ctx:elicit("approve", { message = question(target, args, plan), requestedSchema = APPROVE })
    if not answer then return nil, nil, err end
    if answer.action == "accept" and answer.content and answer.content.approve == true then return nil end
    return declined(target, args)
  end
  if args.confirm then return nil end
  return preview(target, args, plan)
end

-- createdump is asked over the socket; what needs none tells most of what a dump would.
local function silent(err, pid)
  if err.kind ~= "EndpointUnavailable" or not process.can_read(pid) then return err end
  local message = "%s Its runtime cannot be asked for a dump; gcore -o NAME %d on the host needs no socket."
  return errors.new(err.kind, message:format(err.message, pid), {
    detail = err.detail, process_id = pid, hints = {
      hints.new("collect_thread_snapshot", "See where its threads stand: that needs no socket.", { processId = pid }, "high"),
      hints.new("inspect_heap", "Walk its heap: that needs no socket.", { source = "live", processId = pid }),
      hints.new("inspect_process", "Find what is in the way, with the fix.", { view = "preflight", processId = pid }),
    },
  })
end

local function resolve(ctx, args)
  local asked = ctx.state.dump
  local pid = asked and asked.pid or args.processId
  local target, err = process.resolve(ctx, pid)
  if not target then return nil, silent(err, pid) end
  if asked and tostring(target.start_time) ~= asked.start_time then
    return nil, errors.new("ProcessExited", ("Process %d, of which a dump was asked for, has ended, and another has its number."):format(
      target.pid), { process_id = target.pid })
  end
  return target
end

local function plan_of(ctx, args)
  local folder, err = store.folder(args.outputDirectory, "outputDirectory")
  if not folder then return nil, nil, err end
  local target
  target, err = resolve(ctx, args)
  if not target then return nil, nil, err end
  err = write.unsupported(target, args.dumpType)
  if err then return nil, nil, err end
  local plan
  plan, err = write.plan(target, { type = args.dumpType, folder = folder })
  return target, plan, err
end

local SMALL <const> = { Mini = true, Triage = true }

-- A small dump is for its threads: it seldom has any of the heap.
local function next_steps(written)
  local small = SMALL[written.dumpType]
  local heap = hints.new("inspect_heap", small and "See whether it holds any of the heap: dumps of type WithHeap and Full do."
    or "See what fills the heap.", {
      source = "dump", dumpFilePath = written.filePath, topTypes = written.dumpType ~= "Mini" and 20 or nil,
    }, small and "low" or nil)
  local threads = hints.new("collect_thread_snapshot", "See what each thread was doing.", { dumpFilePath = written.filePath })
  return {
    small and threads or heap, small and heap or threads,
    hints.new("get_bytes", "Fetch it, for a tool elsewhere.", { kind = "dump", dumpFilePath = written.filePath }, "low"),
  }
end

local function run(ctx, args)
  local target, plan, err = plan_of(ctx, args)
  if not plan then return nil, err end
  local stop, extras
  stop, extras, err = approval(ctx, target, args, plan)
  if stop or err then return stop, extras or err end
  local written
  written, err = write.write(ctx, target, plan, args.crashReport)
  if not written then return nil, err end
  return result("dump_written", target, args, { dump = written }), {
    summary = ("The %s dump of process %d is written: %s, %s in %.1f s."):format(args.dumpType, target.pid, written.filePath,
      text.bytes(written.fileSizeBytes), written.durationMs / 1000),
    process = target, hints = next_steps(written),
  }
end

-- What a watch of counters may take when its threshold is crossed; its own parameter confirmDump was checked, and its risk approved.
captures.announce("dump", {
  capture = function(ctx, target)
    local type = write.unsupported(target, "WithHeap") and "Full" or "WithHeap" -- some can write nothing else
    local unable = write.unsupported(target, type)
    if unable then return nil, unable end
    local plan, err = write.plan(target, { type = type, folder = "" })
    if not plan then return nil, err end
    local written
    written, err = write.write(ctx, target, plan)
    return written and { dump_path = written.filePath }, err
  end,
})

return tool {
  name = "collect_process_dump", title = "Write a process dump",
  description = "Writes a core dump of a .NET process below the artifact root, once a person agreed: by elicitation, or with confirm=true "
    .. "where the client cannot ask.",
  scopes = { list = { "dump-write", "ptrace" } },
  annotations = { read_only = false, destructive = true },
  own_approval = true,
  risk = {
    level = "critical", target_impact = "high", data_exposure = "secrets",
    reason = "Writes the memory of the target to a file; the target stands still meanwhile.",
    side_effects = { "writes a file below the artifact root", "suspends the target while it is written" },
    mitigations = { "a person agrees first", "the file is 0600 and is removed after MCP_ARTIFACT_TTL_HOURS" },
  },
  payload = "DumpToolResult", run = run,
  params = {
    tool.process_id(),
    {
      "dumpType", "string", enum = { "Mini", "Triage", "WithHeap", "Full" }, ci = true, default = "Mini",
      note = "Mini: stacks; Triage: without strings; WithHeap: for heap views and method bytes; Full: all memory.",
    },
    { "outputDirectory", "string?", note = "Sub-path of the artifact root." },
    { "confirm", "bool", default = false, note = "A person agreed. Only where the client cannot ask." },
    { "crashReport", "bool", default = false, note = "Also createdump's JSON of the stacks." },
  },
}
