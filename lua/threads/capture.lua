-- SPDX-License-Identifier: MIT
-- Takes a thread snapshot: the worker's facts become an artifact of threads with named frames, locks and the pool.
local locks = require("threads.locks")
local loop = require("lunette.loop")
local method_names = require("threads.names")
local numbers = require("lunette.numbers")
local native_code = require("threads.native")
local recognise = require("threads.recognise")
local symbol_path = require("samplers.symbol_path")
local symbols = require("lunette.symbols")
local waits = require("samplers.waits")
local worker = require("lunette.worker")

local M = {}

M.TIMEOUT_MS = 60000
M.FRAMES, M.FRAMES_MAX = 64, 512 -- of a thread that are kept, as native/memory/job_threads.c has them
local LINES_TIMEOUT_MS <const> = 10000
local MAX_LINES <const> = 2000
local FLAGS <const> = {
  background = 0x200, unstarted = 0x400, dead = 0x800, reported_dead = 0x10000, pool = 0x01000000, waits = 0x02000000,
}
local WAIT_TYPES <const> = { -- types that a wait is about, by the beginning of their names
  "System.Threading.Tasks.", "System.Threading.SemaphoreSlim", "System.Threading.ManualResetEventSlim", "System.Threading.Lock",
  "System.Threading.Channels.", "System.Threading.ReaderWriterLockSlim", "System.Threading.Thread", "System.Threading.CountdownEvent",
  "System.Threading.Barrier", "System.Runtime.CompilerServices.AsyncTaskMethodBuilder",
  "System.Runtime.CompilerServices.AsyncTaskMethodBuilder`1+AsyncStateMachineBox",
}
local NOT_WAITED_FOR <const> = { -- what a wait is made of, and what is only at hand
  ["System.Threading.Tasks.TplEventSource"] = true, ["System.Threading.Thread"] = true,
  ["System.Threading.Tasks.Task+SetOnInvokeMres"] = true,
}

local function base(path) return path and path:match("[^/]+$") or nil end

-- ---- frames -----------------------------------------------------------------------------------------------------------------------

local function methods_of(facts)
  local list = {}
  for i, m in ipairs(facts.methods or {}) do
    local type_name, method = method_names.split(m[2])
    list[i] = {
      address = m[1], name = m[2] ~= "" and m[2] or "<dynamic>", type = type_name, method = method, token = m[3],
      module = facts.modules[m[4] + 1], dynamic = m[5],
    }
  end
  return list
end

local function managed(frame, methods)
  local method = methods[frame[4] + 1]
  return {
    kind = "managed", ip = frame[2], name = method and method.name or "<unknown>", method = method, il = frame[5],
  }
end

local function runtime(frame, methods)
  local method = methods[frame[4] + 1]
  return {
    kind = "runtime", ip = frame[2], name = method and method.name or ("[%s]"):format(frame[5] or "Frame"), method = method,
  }
end

-- module+0x…, or what tells that the address is in none.
local function native(frame, modules)
  local module = modules[frame[4] + 1]
  local name = module and ("%s+%s"):format(base(module.path) or module.path, frame[5]) or ("<unmapped-or-not-captured %s>"):format(frame[2])
  return {
    kind = "native", ip = frame[2], name = name, rva = module and frame[5] or nil, native_module = module,
    address_kind = module and "module" or "unmapped-or-not-captured",
  }
end

-- Frames at one place are one table for all threads; where each stack pointer stood is beside, in `sps`.
local function frames_of(list, methods, facts)
  local frames, sps, known = {}, {}, facts.known_frames
  for i, frame in ipairs(list or {}) do
    local kind = frame[1]
    local key = kind .. frame[2] .. ":" .. frame[4] .. (kind == "runtime" and frame[5] or "")
    local found = known[key]
    if not found then
      found = kind == "managed" and managed(frame, methods) or kind == "runtime" and runtime(frame, methods)
        or native(frame, facts.nativeModules)
      known[key] = found
    end
    frames[i], sps[i] = found, numbers.parse_address(frame[3])
  end
  return frames, sps
end

-- ---- threads ----------------------------------------------------------------------------------------------------------------------

local function state_of(thread, flags)
  local words = {}
  if flags & FLAGS.unstarted ~= 0 then words[#words + 1] = "Unstarted" end
  if not thread.alive and flags & FLAGS.unstarted == 0 then words[#words + 1] = "Stopped" end
  if flags & FLAGS.background ~= 0 then words[#words + 1] = "Background" end
  if flags & FLAGS.waits ~= 0 then words[#words + 1] = "WaitSleepJoin" end
  if flags & FLAGS.pool ~= 0 then words[#words + 1] = "ThreadPoolWorker" end
  if #words == 0 or (#words == 1 and words[1] == "Background") then table.insert(words, 1, "Running") end
  return table.concat(words, ", ")
end

local function waited_for(name)
  if NOT_WAITED_FOR[name] then return false end
  for _, start in ipairs(WAIT_TYPES) do
    if name:sub(1, #start) == start then return true end
  end
  return false
end

local function references(thread, facts)
  local list, seen, types = {}, {}, {}
  for i, ref in ipairs(thread.refs or {}) do
    local name = facts.types[ref[3] + 1]
    list[i] = { frame = ref[1], object = ref[2], type = name }
    if name and waited_for(name) and not seen[name] then
      types[#types + 1], seen[name] = name, true
    end
  end
  return list, types
end

local function thread_of(given, facts, methods, names)
  local flags, task = given.flags, given.task or {}
  local thread = {
    id = given.id, os_id = given.osId, address = given.address, flags = flags, lock_count = given.lockCount, finalizer = given.finalizer,
    gc = given.gc, cooperative = given.cooperative, name = task.name, task_state = task.state, cpu_ns = task.cpuNs,
    alive = flags & (FLAGS.dead | FLAGS.reported_dead | FLAGS.unstarted) == 0 and given.osId ~= 0,
    background = flags & FLAGS.background ~= 0, pool_worker = flags & FLAGS.pool ~= 0, stack_end = given["end"],
    key = given.id, silent_wait = flags & FLAGS.waits ~= 0 or task.state == "S",
  }
  thread.frames, thread.sps = frames_of(given.frames, methods, facts)
  thread.exception_type = given.exception and facts.types[given.exception.type + 1] or nil
  thread.refs, thread.waits_on = references(given, facts)
  thread.state = state_of(thread, flags)
  thread.reason, thread.operation = recognise.wait(thread.frames, names)
  return thread
end

-- A thread without a managed one, of a program that has none (NativeAOT): the label is by the kernel's word.
local function native_thread(given, facts)
  local frames, sps = frames_of(given.frames, {}, facts)
  local state = given.state ~= "t" and given.state or nil -- begun while we stopped the others: that stop is ours
  local reason = (facts.reasons or {})[given.tid] or state and native_code.reason { state = state }
  return {
    id = given.osId, os_id = given.osId, address = "0x0", flags = 0, lock_count = 0, alive = true, background = false,
    frames = frames, sps = sps, name = given.name, state = state or "?", reason = reason, key = given.osId,
    stack_end = given["end"], native = true, refs = {}, waits_on = {},
  }
end

-- ---- locks ------------------------------------------------------------------------------------------------------------------------

local function locks_of(facts, artifact)
  local list = {}
  for i, given in ipairs(facts.locks or {}) do
    -- a System.Threading.Lock keeps the number of the kernel's thread (seen on 9 and 10)
    local holder = given.ownerId and (artifact.by_os[given.ownerId] or artifact.by_id[given.ownerId]) or artifact.by_address[given.owner]
    local owner = holder and holder.id
    list[i] = {
      object = given.object, type = facts.types[given.type + 1], owner_id = owner, owner_address = given.owner,
      recursion = given.recursion, waiters = given.waiters, kind = given.kind, source = given.source, waiting = {},
    }
  end
  return list
end

-- ---- the pool ---------------------------------------------------------------------------------------------------------------------

local TRANSITIONS <const> = {
  [0] = "Warmup", "Initializing", "RandomMove", "ClimbingMove", "ChangePoint", "Stabilizing", "Starvation", "ThreadTimedOut",
  "CooperativeBlocking",
}

local function pool_of(facts)
  local given = facts.pool
  if type(given) ~= "table" then return nil end
  local counts = numbers.parse_address(given.counts)
  local pool = {
    active = counts & 0xffff, current = counts >> 16 & 0xffff, goal = counts >> 32 & 0xffff, min = given.min, max = given.max,
    min_io = given.minIo, max_io = given.maxIo, cpu = given.cpu, queues = given.queues or {},
    local_queues = given["local"] or {}, pending = 0,
  }
  for _, list in ipairs { pool.queues, pool.local_queues } do
    for _, queue in ipairs(list) do pool.pending = pool.pending + queue.length end
  end
  for _, queue in ipairs(pool.queues) do pool.global = (pool.global or 0) + queue.length end
  local c = given.climbing
  if c then
    pool.climbing = {
      tick = c.tick, samples = c.samples, threads = c.threads, throughput = c.throughput, transition = TRANSITIONS[c.transition]
        or tostring(c.transition), interval_ms = c.intervalMs,
    }
  end
  return pool
end

-- ---- source lines -----------------------------------------------------------------------------------------------------------------

local function file_of(module, live)
  local inside = live and ("/proc/%d/root%s"):format(live.pid, module.path)
  return inside or module.path
end

local function lines(ctx, artifact, args, live)
  local requests, frames, index, seen = {}, {}, {}, {}
  for _, thread in ipairs(artifact.threads) do
    for _, frame in ipairs(thread.frames) do
      local m = frame.method
      local is_new = not seen[frame]
      seen[frame] = true
      if is_new and frame.il and m and m.module and m.module.path and m.token ~= 0 then
        local key = m.address .. ":" .. frame.il
        if not index[key] and #requests < MAX_LINES then
          requests[#requests + 1] = { path = file_of(m.module, live), mvid = m.module.mvid, token = m.token, il_offset = frame.il }
          index[key], frames[#requests] = #requests, {}
        end
        if index[key] then table.insert(frames[index[key]], frame) end
      end
    end
  end
  if #requests == 0 then return end
  local found, err = symbols.lines(requests, {
    search = symbol_path.of_caller(ctx, args.symbolPath), search_2 = symbol_path.of_operator(), timeout_ms = LINES_TIMEOUT_MS,
  })
  if not found then
    artifact.warnings[#artifact.warnings + 1] = "SymbolsNotRead: " .. tostring(err and err.message or err)
    return
  end
  for i, at in ipairs(found) do
    for _, frame in ipairs(at.file and frames[i] or {}) do
      frame.source = { file = at.file, line = at.line, end_line = at.end_line, url = at.url }
    end
  end
end

-- ---- all of it --------------------------------------------------------------------------------------------------------------------

-- A dump of the kind Mini or Triage has stacks, but not the memory that says who owns what.
local function locks_unknown(artifact)
  for _, lock in ipairs(artifact.locks) do
    if lock.waiters > 0 then return end
  end
  for _, thread in ipairs(artifact.threads) do
    if thread.reason == recognise.MONITOR then
      artifact.locks_unknown = ("threads wait for locks, but %s does not hold who owns them%s"):format(
        artifact.origin == "dump" and "the dump" or "what could be read", artifact.origin == "dump" and ": take one with WithHeap" or "")
      artifact.warnings[#artifact.warnings + 1] = "LocksNotCaptured: " .. artifact.locks_unknown
      return
    end
  end
end

local function is_blocked(thread)
  return thread.alive and thread.reason ~= nil and not recognise.PARKED[thread.reason] and thread.reason ~= "Running"
end

-- Names of native frames; of a thread of which the kernel said nothing (a dump), what its innermost frames wait for.
local function finish_native(artifact, live)
  native_code.name(artifact.threads, live and live.pid)
  for _, thread in ipairs(artifact.native and artifact.threads or {}) do
    thread.reason = thread.reason or native_code.reason_of_frames(thread.frames)
    thread.blocked = is_blocked(thread)
  end
end

-- Keeps the frames that were asked for: what a thread waits for was read from more of them. What the limit left out is said, not only of
-- the thread that somebody looks at.
local function cut_stacks(artifact, max_frames)
  local n = 0
  for _, thread in ipairs(max_frames and artifact.threads or {}) do
    local frames = thread.frames
    if #frames > max_frames then
      thread.frames, thread.stack_end = table.move(frames, 1, max_frames, 1, {}), "cut"
    end
  end
  for _, thread in ipairs(artifact.threads) do n = n + (thread.stack_end == "cut" and 1 or 0) end
  if n == 0 then return end
  artifact.warnings[#artifact.warnings + 1] = ("%d %s longer than the %d frames that are kept (maxFramesPerThread, at most %d)"):format(
    n, n == 1 and "stack is" or "stacks are", max_frames or M.FRAMES, M.FRAMES_MAX)
end

-- Makes the artifact of a worker's facts.
---@param facts table
---@return table
function M.artifact(facts)
  local names = waits.current().names
  local native_only = facts.runtime.kind == "nativeaot" or facts.runtime.kind == "none"
  local artifact = {
    process_id = facts.pid, origin = facts.live and "live" or "dump", source = native_only and "linux-native-stack" or "clrmd-thread-walk",
    runtime_name = native_only and "NativeAOT" or ".NET", runtime_version = facts.runtime.version or "", stop_ms = facts.stopNs / 1e6,
    threads = {}, by_id = {}, by_address = {}, by_os = {}, native = native_only,
    warnings = table.move(facts.notes or {}, 1, #(facts.notes or {}), 1, {}),
    n_native = #(facts.nativeThreads or {}),
  }
  local methods = methods_of(facts)
  facts.known_frames = {}
  for _, given in ipairs(facts.threads or {}) do
    local thread = thread_of(given, facts, methods, names)
    artifact.threads[#artifact.threads + 1] = thread
    artifact.by_id[thread.id], artifact.by_address[thread.address] = thread, thread
    if thread.os_id ~= 0 then artifact.by_os[thread.os_id] = thread end
  end
  if native_only then
    for _, given in ipairs(facts.nativeThreads or {}) do
      local thread = native_thread(given, facts)
      artifact.threads[#artifact.threads + 1] = thread
      artifact.by_id[thread.id] = thread
    end
  end
  artifact.locks, artifact.pool = locks_of(facts, artifact), pool_of(facts)
  locks.connect(artifact)
  for _, thread in ipairs(artifact.threads) do
    thread.blocked = is_blocked(thread)
    thread.stall = recognise.stall(thread)
  end
  locks_unknown(artifact)
  cut_stacks(artifact, facts.max_frames)
  return artifact
end

--- Takes a snapshot of a process or a dump.
---@param ctx table
---@param source { process: table?, dump: string? }
---@param args { maxFramesPerThread: integer?, includeRuntimeFrames: boolean?, includeNativeFrames: boolean?, symbolPath: string? }
---@return table? artifact
---@return LunetteError?
function M.run(ctx, source, args)
  local began, unix = loop.now_ns(), loop.unix_ms()
  local job, options = worker.target(source)
  job.maxFrames = args.maxFramesPerThread and math.max(args.maxFramesPerThread, M.FRAMES)
  job.runtimeFrames, job.nativeFrames = args.includeRuntimeFrames, args.includeNativeFrames
  options.timeout_ms, options.message = M.TIMEOUT_MS, "Walking stacks"
  job.anyProcess = source.any
  local live = source.process
  local managed_one = live and live.endpoint and live.endpoint.runtime == "CoreClr"
  local reasons = live and not managed_one and native_code.reasons(live.pid) or nil -- once it stands, all are stopped
  local facts, err = worker.json(ctx, "threads", job, options)
  if not facts then return nil, err end
  facts.reasons, facts.max_frames = reasons, args.maxFramesPerThread
  local artifact = M.artifact(facts)
  if artifact.native or args.includeNativeFrames then finish_native(artifact, live) end
  artifact.started_unix_ms, artifact.dump_path = unix, source.dump
  artifact.process = source.process
  lines(ctx, artifact, args, source.process)
  artifact.walk_ms = source.process and artifact.stop_ms or (loop.now_ns() - began) / 1e6
  artifact.notes = artifact.warnings
  return artifact
end

return M
