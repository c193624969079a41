-- SPDX-License-Identifier: MIT
-- Records of a thread snapshot on the wire.
local identity = require("samplers.identity")
local json = require("lunette.json")
local locks = require("threads.locks")
local numbers = require("lunette.numbers")

local M = {}

M.ALL = { __order = {
  "handle", "view", "origin", "source", "processId", "capturedAt", "walkDuration", "threads", "thread", "locks", "deadlocks",
  "uniqueStacks", "threadPool", "asyncStalls", "threadId", "waitChains", "resolvedAddresses", "frameVars",
} }
local THREAD <const> = { __order = {
  "managedThreadId", "osThreadId", "address", "state", "isAlive", "isBackground", "isFinalizer", "isGc", "isThreadpoolWorker", "lockCount",
  "currentExceptionType", "topFrameMethod", "isLikelyBlocked", "inferredWaitReason", "waitOperation", "frames",
} }
local FRAME <const> = { __order = {
  "kind", "displayName", "typeFullName", "moduleName", "instructionPointer", "stackPointer", "identity", "addressKind", "rva", "buildId",
} }
local LOCK <const> = { __order = {
  "objectAddress", "objectTypeFullName", "ownerManagedThreadId", "ownerOSThreadId", "ownerThreadAddress", "recursionCount",
  "waitingThreadCount", "isContended", "source", "waitingManagedThreadIds", "lockKind",
} }
local KINDS <const> = { managed = "ManagedMethod", runtime = "Runtime", native = "Native" }

function M.name(frame)
  local at = frame.source and frame.source.line and (" (%s:%d)"):format(frame.source.file:match("[^/\\]+$") or frame.source.file,
    frame.source.line) or ""
  return frame.name .. at
end

--- A frame. `whole`: with its identity.
function M.frame(frame, whole, sp)
  local method = frame.method
  local module = method and method.module
  local id
  if whole and method then
    id = identity.of({
      kind = method.dynamic and "dynamic" or "managed", type = method.type, name = method.method, token = method.token,
    }, module and { name = module.path and module.path:match("[^/]+$"), path = module.path, mvid = module.mvid }, frame.source)
  end
  return setmetatable({
    kind = KINDS[frame.kind] or "Unknown", displayName = M.name(frame), typeFullName = method and method.type or nil,
    moduleName = module and module.path and module.path:match("[^/]+$") or frame.native_module and frame.native_module.path:match("[^/]+$")
      or nil,
    instructionPointer = frame.ip, stackPointer = sp and numbers.address(sp) or frame.sp,
    identity = id, addressKind = frame.address_kind, rva = frame.rva,
    buildId = frame.native_module and frame.native_module.buildId ~= "" and frame.native_module.buildId or nil,
  }, FRAME)
end

--- A thread with at most `max` frames.
function M.thread(thread, max, whole)
  local frames = json.array({})
  for i = 1, math.min(max or #thread.frames, #thread.frames) do frames[i] = M.frame(thread.frames[i], whole, thread.sps[i]) end
  return setmetatable({
    managedThreadId = thread.id, osThreadId = thread.os_id, address = thread.address, state = thread.state, isAlive = thread.alive,
    isBackground = thread.background or false, isFinalizer = thread.finalizer or false, isGc = thread.gc or false,
    isThreadpoolWorker = thread.pool_worker or false, lockCount = thread.lock_count or 0, currentExceptionType = thread.exception_type,
    topFrameMethod = thread.frames[1] and thread.frames[1].name or nil, frames = frames, isLikelyBlocked = thread.blocked or false,
    inferredWaitReason = thread.reason, waitOperation = thread.operation ~= thread.reason and thread.operation or nil,
  }, THREAD)
end

function M.lock(lock, artifact)
  local owner = lock.owner_id and artifact.by_id[lock.owner_id]
  return setmetatable({
    objectAddress = lock.object, objectTypeFullName = lock.type, ownerManagedThreadId = lock.owner_id or -1,
    ownerOSThreadId = owner and owner.os_id or 0, ownerThreadAddress = owner and owner.address or lock.owner_address or "0x0",
    recursionCount = lock.recursion, waitingThreadCount = math.max(lock.waiters, #lock.waiting), isContended = lock.waiters > 0,
    source = lock.source, waitingManagedThreadIds = json.array(table.move(lock.waiting, 1, #lock.waiting, 1, {})), lockKind = lock.kind,
  }, LOCK)
end

--- The common members of every answer.
function M.head(artifact, handle, view)
  return setmetatable({
    handle = handle, view = view, origin = artifact.origin, source = artifact.source, processId = artifact.process_id,
    capturedAt = numbers.iso(artifact.started_unix_ms), walkDuration = numbers.timespan(artifact.walk_ms),
  }, M.ALL)
end

--- The first n of a list of threads.
function M.threads(list, n, frames, whole)
  local rows = json.array({})
  for i = 1, math.min(n, #list) do rows[i] = M.thread(list[i], frames, whole) end
  return rows
end

function M.locks(artifact, n)
  local rows = json.array({})
  for i, lock in ipairs(locks.ranked(artifact)) do
    if i > n then break end
    rows[i] = M.lock(lock, artifact)
  end
  return rows
end

return M
