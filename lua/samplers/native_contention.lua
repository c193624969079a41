-- SPDX-License-Identifier: MIT
-- NativeContentionEvidence: what captures of the kernel tell of native synchronisation, in four levels. Only waits that ended within the
-- window confirm blocking; calls of lock functions are activity, whatever their number, since a free lock looks like a taken one.
local json = require("lunette.json")

local M = {}

M.OFF_CPU, M.LOCK_CALLS, M.LOCK_BREAKPOINTS = "off_cpu:sched_switch+futex", "native-lock-contention:uprobe",
  "native-lock-contention:breakpoint"
local ORDER <const> = { __order = {
  "level", "summary", "sampledLockCallCount", "nativeSyncSpanCount", "nativeSyncMicros", "closedNativeSyncSpanCount",
  "censoredNativeSyncSpanCount", "evidenceSources", "confidenceRationale", "uncertaintyNotes",
} }

local function seconds(micros) return ("%.3f s"):format(micros / 1e6) end

local function level_of(sync, lost)
  local closed = sync.spans - sync.censored
  if sync.spans == 0 then return "none", "No thread left the processor in a futex within the window." end
  if lost > 0 then
    return "probable-blocking", ("Records of the kernel were lost (%d), so that spans may be paired wrongly."):format(lost)
  end
  if closed == 0 then return "probable-blocking", "All waits were open at an end of the window: their time is a lower bound." end
  return "confirmed-blocking", ("%d waits in futex began and ended within the window, each seen on its thread of this process.")
    :format(closed)
end

local function doubts(sync)
  local notes = json.array({})
  if sync.spans == 0 then return notes end
  if sync.locks < sync.spans then
    notes[#notes + 1] = ("%d of %d waits (%s) are of the kind of condition variables, semaphores and events: idle threads wait like "
      .. "that, too."):format(sync.spans - sync.locks, sync.spans, seconds(sync.micros - sync.locks_micros))
  end
  if sync.censored > 0 then
    notes[#notes + 1] = ("%d waits (%s) were cut off by an end of the window."):format(sync.censored, seconds(sync.censored_micros))
  end
  return notes
end

local function sentence(sync, level)
  if sync.spans == 0 then return "No wait for native synchronisation was seen." end
  local waited = ("%d waits for native synchronisation, %s in all"):format(sync.spans, seconds(sync.micros))
  return ("%s; %d of them (%s) of the kind of mutexes: %s."):format(waited, sync.locks, seconds(sync.locks_micros), level)
end

--- Of an off-CPU capture, or one of its stacks.
---@param sync LunetteOffCpuSync
---@param lost integer   records that the kernel could not deliver
function M.of_waits(sync, lost)
  local level, rationale = level_of(sync, lost)
  return setmetatable({
    level = level, summary = sentence(sync, level), sampledLockCallCount = 0, nativeSyncSpanCount = sync.spans,
    nativeSyncMicros = sync.micros, closedNativeSyncSpanCount = sync.spans - sync.censored, censoredNativeSyncSpanCount = sync.censored,
    evidenceSources = json.array({ M.OFF_CPU }), confidenceRationale = rationale, uncertaintyNotes = doubts(sync),
  }, ORDER)
end

--- Of sampled calls of lock functions: activity, never more.
---@param hits integer
---@param source string?   what they are of; M.LOCK_CALLS
function M.of_calls(hits, source)
  return setmetatable({
    level = "activity", summary = ("%d calls of lock functions: activity, which says nothing of waiting."):format(hits),
    sampledLockCallCount = hits, nativeSyncSpanCount = 0, nativeSyncMicros = 0, closedNativeSyncSpanCount = 0,
    censoredNativeSyncSpanCount = 0, evidenceSources = json.array({ source or M.LOCK_CALLS }),
    confidenceRationale = "Calls were counted, waits were not: a free lock takes the same call as one that another thread holds.",
    uncertaintyNotes = json.array({ "Only collect_sample(kind=\"off_cpu\") tells whether threads waited." }),
  }, ORDER)
end

local function copy(evidence)
  local out = setmetatable({}, ORDER)
  for name, value in pairs(evidence) do out[name] = value end
  out.evidenceSources = json.array({ table.unpack(evidence.evidenceSources) })
  out.uncertaintyNotes = json.array({ table.unpack(evidence.uncertaintyNotes) })
  return out
end

-- A single one stands for itself, and says what of the other.
local function alone(evidence, other, why)
  local out = copy(evidence)
  out.summary = ("%s %s %s."):format(evidence.summary, other, why)
  return out
end

--- Both captures of one window in one: the level is that of the waits, whatever the number of calls. Each is an evidence, or nil and why
--- there is none ("did not run", "failed: …"). nil when there is none at all.
---@return table?
function M.merge(waits, why_no_waits, calls, why_no_calls)
  if waits and calls then
    local out = copy(waits)
    out.sampledLockCallCount = calls.sampledLockCallCount
    out.summary = ("%s Beside it %d calls of lock functions, which do not change the level."):format(waits.summary,
      calls.sampledLockCallCount)
    table.insert(out.evidenceSources, calls.evidenceSources[1])
    return out
  end
  if waits then return alone(waits, "native-lock-contention", why_no_calls) end
  if calls then return alone(calls, "off_cpu", why_no_waits) end
  return nil
end

return M
