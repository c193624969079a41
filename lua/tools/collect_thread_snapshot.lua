-- SPDX-License-Identifier: MIT
-- collect_thread_snapshot: what every thread is doing and waiting for, of a process that is stopped for some milliseconds, or of a dump.
local lazy = require("lunette.lazy")
local capture = lazy("threads.capture")
local captures = require("lunette.captures")
local errors = require("lunette.errors")
local handles = require("lunette.handles")
local hints = require("lunette.hints")
local locks = lazy("threads.locks")
local rules = require("lunette.rules.index")
local signal = require("lunette.signal")
local source = lazy("threads.source")
local symbol_path = lazy("samplers.symbol_path")
local tool = require("lunette.tool")
local wire = lazy("threads.wire")

local KIND <const> = "thread-snapshot"
local LIVE_RISK <const> = {
  level = "high", target_impact = "moderate", data_exposure = "metadata",
  reason = "Suspends the process while the stacks of its threads are walked: some milliseconds, under a second for 500 threads.",
  side_effects = { "suspends the target" }, mitigations = { "it is resumed on every path", "read a dump instead: dumpFilePath" },
}
local DUMP_RISK <const> = { level = "moderate", data_exposure = "metadata", reason = "Reads a dump; no process is touched." }
-- How much of the snapshot an answer holds.
local SIZES <const> = {
  summary = { view = "top-blocked", threads = 6, frames = 6, locks = 0 },
  detail = { view = "threads-summary", threads = 8, frames = 7, locks = 12 },
}
SIZES.raw = SIZES.detail

local function check(_, call)
  if call.explicit.dumpFilePath and call.explicit.processId then
    return nil, errors.invalid("dumpFilePath", "Give processId or dumpFilePath, not both.")
  end
  return true
end

local function counts(artifact)
  local blocked, contended, alive = 0, 0, 0
  for _, thread in ipairs(artifact.threads) do
    alive = alive + (thread.alive and 1 or 0)
    blocked = blocked + (thread.blocked and 1 or 0)
  end
  for _, lock in ipairs(artifact.locks) do contended = contended + (lock.waiters > 0 and 1 or 0) end
  return alive, blocked, contended
end

local function plural(n, one, many) return ("%d %s"):format(n, n == 1 and one or many) end

local function sentence(artifact, cycles)
  local alive, blocked, contended = counts(artifact)
  local where = artifact.dump_path and artifact.dump_path:match("[^/]+$") or ("Process %d"):format(artifact.process_id)
  local more = ""
  if #cycles > 0 then
    local ids = {}
    for i, thread in ipairs(cycles[1]) do ids[i] = tostring(thread.id) end
    more = (" Threads %s wait for each other's locks: a deadlock candidate."):format(table.concat(ids, ", "))
  end
  local stood = artifact.origin == "live" and (" The process stood still for %.0f ms."):format(artifact.stop_ms) or ""
  return ("%s: %s, %d blocked, %s.%s%s"):format(where, plural(alive, artifact.native and "thread" or "managed thread",
    artifact.native and "threads" or "managed threads"), blocked, plural(contended, "contended lock", "contended locks"), more, stood)
end

local function next_steps(artifact, entry, cycles)
  local _, blocked, contended = counts(artifact)
  local list = {}
  if contended > 0 then
    list[1] = hints.new("query_snapshot", #cycles > 0 and "See the cycle, with what each edge rests on."
      or "See who waits for whose lock.", { handle = entry.id, view = "deadlocks" }, "high")
  elseif blocked > 0 then
    list[1] = hints.new("query_snapshot", "See what the blocked threads wait for.", { handle = entry.id, view = "top-blocked" }, "high")
  end
  local stalled = false
  for _, thread in ipairs(artifact.threads) do stalled = stalled or thread.stall ~= nil end
  if stalled then
    list[#list + 1] = hints.new("query_snapshot", "Follow the waits to what they end in.", { handle = entry.id, view = "wait-chains" })
  end
  list[#list + 1] = hints.new("query_snapshot", "See threads that stand at the same place as one.", {
    handle = entry.id, view = "unique-stacks" })
  return list
end

local function put(artifact, args)
  local live = artifact.process
  return handles.put {
    kind = KIND, artifact = artifact, process_id = artifact.process_id, process_start = live and live.start_time, origin = artifact.origin,
    started_unix_ms = artifact.started_unix_ms, duration_ms = artifact.walk_ms,
    collector = {
      tool = "collect_thread_snapshot",
      arguments = {
        processId = live and live.pid, dumpFilePath = args.dumpFilePath, includeNativeFrames = args.includeNativeFrames or nil,
      },
    },
  }
end

local function denied(err, live)
  if live and err.kind == "PermissionDenied" and not err.hints then
    err = errors.classify(err)
    err.hints = {
      hints.new("inspect_process", "Find what forbids the attach, with the fix.", { view = "preflight", processId = live.pid }, "high"),
      hints.new("collect_sample", "See where threads wait without stopping them.", { kind = "off_cpu", processId = live.pid }),
      hints.new("collect_process_dump", "Let the runtime write a dump, then give dumpFilePath.", { processId = live.pid }),
    }
  end
  return err
end

local function run(ctx, args)
  local from, err = source.of(ctx, args)
  if not from then return nil, err end
  local artifact
  artifact, err = capture.run(ctx, from, args)
  if not artifact then return nil, denied(err, from.process) end
  local entry, size = put(artifact, args), SIZES[(args.depth or "summary"):lower()] or SIZES.summary
  local cycles = locks.cycles(artifact)
  local data = wire.head(artifact, entry.id, size.view)
  data.threads = wire.threads(locks.decisive(artifact), size.threads, size.frames, false)
  if size.locks > 0 then data.locks = wire.locks(artifact, size.locks) end
  local signals = signal.of_capture(KIND, artifact, entry.id)
  local notes = ""
  for _, warning in ipairs(artifact.warnings) do notes = notes .. " " .. warning:gsub("^%l", string.upper) .. "." end
  return data, {
    summary = sentence(artifact, cycles) .. notes, handle = entry, process = from.process, signals = signals,
    hints = rules.hints(KIND, {
      artifact = artifact, signals = signals, handle_id = entry.id, process_id = from.process and from.process.pid,
    }, next_steps(artifact, entry, cycles)),
  }
end

captures.announce("thread-snapshot", {
  view = "top-blocked",
  capture = function(ctx, target)
    local artifact, err = capture.run(ctx, { process = target }, {})
    if not artifact then return nil, err end
    return { handle = put(artifact, {}) }
  end,
})

return tool {
  name = "collect_thread_snapshot", title = "Take a thread snapshot",
  description = "Every thread's state, stack and locks, of a process (stopped for some ms) or a dump, behind a handle for deadlocks and "
    .. "wait chains.",
  scopes = { list = { "ptrace" } },
  check = check, payload = "ThreadSnapshotQueryResult", run = run,
  risk = function(_, args) return args.dumpFilePath and DUMP_RISK or LIVE_RISK end, max_risk = LIVE_RISK,
  unavailable = function(ctx, args) return args.symbolPath and symbol_path.refused(ctx, args) or nil end,
  params = {
    tool.process_id { excludes = { "dumpFilePath" } },
    { "dumpFilePath", "string?", note = "A core dump." },
    { "maxFramesPerThread", "int", default = 64, min = 1, max = 512, note = "Frames kept of each stack." },
    { "includeRuntimeFrames", "bool", default = false, note = "Transitions of the runtime, too." },
    { "includeNativeFrames", "bool", default = false, note = "Native frames between the managed ones, as module+0x." },
    { "symbolPath", "string?", note = "Where symbols are, as _NT_SYMBOL_PATH." },
    { "depth", "string", enum = { "summary", "detail", "raw" }, ci = true, default = "summary", note = "detail: more threads, and locks." },
  },
}
