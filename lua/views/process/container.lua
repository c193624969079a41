-- SPDX-License-Identifier: MIT
-- container: what the kernel's control groups say of a process: CPU quota and throttling, memory limit, pressure, pids, OOM score.
local json = require("lunette.json")
local loop = require("lunette.loop")
local numbers = require("lunette.numbers")
local proc = require("lunette.proc")
local process = require("lunette.process")
local rules = require("lunette.rules.index")

local M = {}

local ORDER <const> = { __order = {
  "processId", "collectedAt", "inContainer", "cgroupVersion", "cgroupPath", "cpu", "memory", "pressure", "pids", "oomScore", "notes" } }

--- ContainerCpuSignals, or nil. Percent and quota are absent without a quota.
---@param cpu table?
local function cpu_of(cpu)
  if not cpu or not cpu.usage_usec then return nil end
  local has_quota = cpu.quota_usec ~= nil
  local periods, throttled = cpu.nr_periods or 0, cpu.nr_throttled or 0
  return {
    usageUsec = cpu.usage_usec, nrPeriods = periods, nrThrottled = throttled, throttledUsec = cpu.throttled_usec or 0,
    throttlePercent = has_quota and (periods > 0 and numbers.round(throttled * 100 / periods, 2) or 0.0) or nil,
    quotaCores = has_quota and numbers.round(cpu.quota_usec / cpu.period_usec, 3) or nil,
  }
end

local function memory_of(memory, notes)
  if not memory or not memory.current_bytes then return nil end
  if not memory.oom_kills then notes[#notes + 1] = "oomKillCount is not known here and left at 0" end
  if not memory.max_hits then notes[#notes + 1] = "maxHitCount is not known here and left at 0" end
  return {
    currentBytes = memory.current_bytes, maxBytes = memory.max_bytes, highBytes = memory.high_bytes,
    usageFraction = numbers.round(memory.usage_fraction, 4), oomKillCount = memory.oom_kills or 0, maxHitCount = memory.max_hits or 0,
  }
end

local function pressure_of(group)
  if not group.psi then return nil end
  local cpu, memory, io = group.cpu_pressure or {}, group.memory_pressure or {}, group.io_pressure or {}
  return {
    cpuSomeAvg10 = cpu.some_avg10, memSomeAvg10 = memory.some_avg10, memFullAvg10 = memory.full_avg10,
    ioSomeAvg10 = io.some_avg10, ioFullAvg10 = io.full_avg10,
  }
end

--- ContainerSignals of a process.
---@param pid integer
---@param group table   of proc.cgroup
function M.signals(pid, group)
  local notes = {}
  for i, note in ipairs(group.notes or {}) do notes[i] = note end
  local signals = {
    processId = pid, collectedAt = numbers.iso(loop.unix_ms()), inContainer = group.in_container, cgroupVersion = group.version,
    cgroupPath = group.path, cpu = cpu_of(group.cpu), pressure = pressure_of(group), pids = group.pids, oomScore = group.oom_score,
  }
  signals.memory = memory_of(group.memory, notes)
  signals.notes = json.array(notes)
  return setmetatable(signals, ORDER)
end

local function summary_of(s)
  local parts = {}
  if s.cpu and s.cpu.quotaCores then
    parts[#parts + 1] = ("quota %.2f cores, throttled in %.1f %% of periods"):format(s.cpu.quotaCores, s.cpu.throttlePercent)
  elseif s.cpu then
    parts[#parts + 1] = "no CPU quota"
  end
  if s.memory and s.memory.usageFraction then
    parts[#parts + 1] = ("memory at %.0f %% of its limit"):format(s.memory.usageFraction * 100)
  elseif s.memory then
    parts[#parts + 1] = "no memory limit"
  end
  if s.memory and s.memory.oomKillCount > 0 then parts[#parts + 1] = ("%d OOM kills"):format(s.memory.oomKillCount) end
  if #parts == 0 then parts[1] = "no limit is visible" end
  local where = s.cgroupVersion == "None" and "no cgroup" or "cgroup " .. s.cgroupVersion:lower() .. " " .. (s.cgroupPath or "")
  return ("Process %d (%s): %s."):format(s.processId, where, table.concat(parts, ", "))
end

--- inspect_process(view="container").
function M.run(ctx, args)
  local target, err = process.resolve(ctx, args.processId)
  if not target then return nil, err end
  local group
  group, err = proc.cgroup(target.pid)
  if not group then return nil, err end
  local signals = M.signals(target.pid, group)
  local summary = summary_of(signals)
  if args.depth == "Summary" then
    local n = #signals.notes
    signals.notes = json.array {}
    if n > 0 then summary = ("%s %d notes at depth=Detail."):format(summary, n) end
  end
  local hints = rules.hints("container", { artifact = signals, process_id = target.pid })
  return signals, { summary = summary, hints = hints, process = target }
end

return M
