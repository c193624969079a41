-- SPDX-License-Identifier: MIT
-- How off-CPU captures look on the wire: stacks, threads. Room goes to the frames nearest to where threads wait.
local contention = require("samplers.native_contention")
local identity = require("samplers.identity")
local json = require("lunette.json")
local wire = require("samplers.wire")

local M = {}

M.ROOM = 60 * 1024       -- bytes of stacks in one answer, which has 80 KB
M.FRAMES, M.FEWEST = 64, 6
M.IDENTITIES = 8         -- frames of one row that name their method for other tools

local ROW_ORDER <const> = { __order = {
  "leafFrame", "offCpuMicros", "occurrenceCount", "dominantState", "threads", "longestMicros", "runDelayMicros", "censoredSpans",
  "censoredMicros", "syscallBreakdown", "wakers", "wakersLeftOut", "nativeContentionEvidence", "stack", "framesLeftOut",
} }
local FRAME_ORDER <const> = { __order = { "module", "method", "identity" } }
local CALL_ORDER <const> = { __order = { "name", "count", "micros" } }
local WAKER_ORDER <const> = { __order = { "kind", "tid", "name", "count", "micros" } }
local THREAD_ORDER <const> = { __order = {
  "tid", "threadName", "offCpuMicros", "switchCount", "topBlockingLeaf", "dominantState", "stackRank", "preemptions", "preemptedMicros",
  "ended",
} }

local function more(n) return n and n > 0 and n or nil end

local function frame(artifact, f, named)
  return setmetatable({
    module = wire.name(f.module), method = wire.name(f.method),
    identity = named and f.kind == "managed" and identity.of(f, artifact.modules[f.module_path] or { name = f.module,
      path = f.module_path }) or nil,
  }, FRAME_ORDER)
end

-- The frames nearest to the leaf, root first.
local function frames(artifact, row, max)
  local list, n, named = json.array({}), #row.frames, 0
  for i = n, math.max(1, n - max + 1), -1 do
    local f = row.frames[i]
    if f.kind == "managed" then named = named + 1 end
    list[#list + 1] = frame(artifact, f, named <= M.IDENTITIES)
  end
  for i = 1, #list // 2 do list[i], list[#list + 1 - i] = list[#list + 1 - i], list[i] end
  return list
end

local function calls(row)
  if #row.calls == 0 then return nil end
  local list = json.array({})
  for i, call in ipairs(row.calls) do
    list[i] = setmetatable({ name = call.name, count = call.count, micros = call.micros }, CALL_ORDER)
  end
  return list
end

local function wakers(row)
  if #row.wakers == 0 then return nil end
  local list = json.array({})
  for i, w in ipairs(row.wakers) do
    list[i] = setmetatable({ kind = w.kind, tid = w.tid, name = w.name and wire.name(w.name) or nil, count = w.count, micros = w.micros },
      WAKER_ORDER)
  end
  return list
end

--- The name of the place where a stack's threads wait.
function M.leaf(row) return wire.name(row.leaf.method) end

--- OffCpuStackHotspot.
---@param artifact table
---@param row LunetteOffCpuStack
---@param max integer   frames
function M.stack(artifact, row, max)
  return setmetatable({
    leafFrame = wire.name(row.leaf.method), offCpuMicros = row.micros, occurrenceCount = row.count, dominantState = row.state,
    threads = row.threads, longestMicros = row.longest_micros, runDelayMicros = more(row.delay_micros), censoredSpans = more(row.censored),
    censoredMicros = more(row.censored_micros), syscallBreakdown = calls(row), wakers = wakers(row),
    wakersLeftOut = more(row.wakers_dropped),
    nativeContentionEvidence = row.sync.spans > 0 and contention.of_waits(row.sync, artifact.info.lost) or nil,
    stack = frames(artifact, row, max), framesLeftOut = more(#row.frames - max),
  }, ROW_ORDER)
end

--- OffCpuStackHotspot[]: as many frames each as there is room for.
function M.stacks(artifact, n)
  local rows, max = artifact.result:stacks(1, n), M.FRAMES
  while true do
    local list = json.array({})
    for i, row in ipairs(rows) do list[i] = M.stack(artifact, row, max) end
    local size = #json.encode(list)
    if size <= M.ROOM then return list end
    if max > M.FEWEST then
      max = math.max(M.FEWEST, math.floor(max * M.ROOM / size * 0.8))
    else -- rows themselves are too many
      rows = table.move(rows, 1, math.max(1, math.floor(#rows * M.ROOM / size * 0.9)), 1, {})
    end
  end
end

--- OffCpuThreadView[].
function M.threads(artifact, n)
  local list = json.array({})
  for i, t in ipairs(artifact.result:threads(1, n)) do
    list[i] = setmetatable({
      tid = t.tid, threadName = wire.name(t.name or ""), offCpuMicros = t.micros, switchCount = t.switches,
      topBlockingLeaf = t.leaf and wire.name(t.leaf.method) or "(none)", dominantState = t.state, stackRank = t.stack_rank,
      preemptions = more(t.preempted), preemptedMicros = more(t.preempted_micros), ended = t.ended or nil,
    }, THREAD_ORDER)
  end
  return list
end

return M
