-- SPDX-License-Identifier: MIT
-- cpu-efficiency: what the kernel and the processor count of a process within a window. Each number is known or not for itself: a host
-- without hardware counters, as most virtual machines, answers with the others and says why those are missing.
local lazy = require("lunette.lazy")
local counting = lazy("lunette.counting")
local errors = require("lunette.errors")
local hints = require("lunette.hints")
local json = require("lunette.json")
local loop = require("lunette.loop")
local numbers = require("lunette.numbers")
local proc = require("lunette.proc")
local process = require("lunette.process")
local progress = require("lunette.progress")
local stopped = require("samplers.stopped")

local TICK_MS <const> = 250 -- longest wait without a look whether the process still runs
local LOW_IPC <const>, SWITCHES_S <const>, MAJOR_S <const> = 0.7, 5000, 10
local NO_PMU <const> = { [2] = true, [19] = true, [95] = true } -- ENOENT, ENODEV, EOPNOTSUPP

local ORDER <const> = { __order = {
  "processId", "startedAt", "duration", "source", "ipc", "cycles", "instructions", "cacheMissRate", "branchMissRate",
  "stalledCyclesFrontend", "stalledCyclesBackend", "tlbMissRate", "pageFaults", "minorFaults", "majorFaults", "contextSwitches",
  "cpuMigrations", "taskClockMs", "cpuCores", "threads", "notes",
} }

-- The members of the answer: of which counters, and how. A rate is the first by the second.
local MEMBERS <const> = {
  { "ipc", "instructions", "cycles" }, { "cycles", "cycles" }, { "instructions", "instructions" },
  { "cacheMissRate", "cache-misses", "cache-references" }, { "branchMissRate", "branch-misses", "branches" },
  { "stalledCyclesFrontend", "stalled-cycles-frontend" }, { "stalledCyclesBackend", "stalled-cycles-backend" },
  { "tlbMissRate", "dTLB-load-misses", "dTLB-loads" }, { "pageFaults", "page-faults", whole = true },
  { "minorFaults", "minor-faults", whole = true }, { "majorFaults", "major-faults", whole = true },
  { "contextSwitches", "context-switches", whole = true }, { "cpuMigrations", "cpu-migrations", whole = true },
  { "taskClockMs", "task-clock", scale = 1e-6 },
}

local function why_missing(name, count)
  if not count.errno then return ("%s: nothing was counted, and /proc does not tell it."):format(name) end
  local why = NO_PMU[count.errno] and "this host gives no such counter (as most virtual machines)" or "perf_event_open was refused"
  return ("%s: %s: %s."):format(name, why, count.message)
end

-- What a reader of the number must know.
local function reservation(name, count)
  local said = {}
  if count.share < 1 then
    said[#said + 1] = ("counted for %.0f %% of the time and extrapolated"):format(100 * count.share)
  end
  if count.user_only then said[#said + 1] = "without the kernel's part, which we may not count" end
  if count.source == "proc" then
    said[#said + 1] = ("of /proc, since perf_event_open was refused (%s)%s"):format(count.message or "?",
      count.at_least and "; what threads did that ended meanwhile is missing" or "")
  end
  return said[1] and ("%s: %s."):format(name, table.concat(said, "; ")) or nil
end

-- A counter that never ran says nothing.
local function value_of(count) return count.value and count.share > 0 and count.value or nil end

local function fill(out, notes, metrics)
  for _, member in ipairs(MEMBERS) do
    local name, first, second = member[1], metrics[member[2]], member[3] and metrics[member[3]]
    local value, by = value_of(first), second and value_of(second)
    if second then value = value and by and by > 0 and value / by or nil end
    if value then
      out[name] = member.whole and math.floor(value + 0.5) or numbers.round(value * (member.scale or 1), second and 4 or 1)
      notes[#notes + 1] = reservation(name, first) or second and reservation(name, second) or nil
    elseif second and value_of(first) and by == 0 then
      notes[#notes + 1] = ("%s: nothing was counted that it could be a share of."):format(name)
    else
      notes[#notes + 1] = why_missing(name, value_of(first) and second or first)
    end
  end
end

local function thread_notes(read, notes)
  if read.uncounted > 0 then
    notes[#notes + 1] = ("ThreadsUncounted: %d threads are not in it: there were not enough descriptors (ulimit -n).")
      :format(read.uncounted)
  end
  if read.raced > 0 then
    notes[#notes + 1] = ("ThreadsRaced: %d threads began while the counters were opened; they may be missing or counted twice.")
      :format(read.raced)
  end
end

-- Waits for the end of the window, or of the process. True, false when it ended early, or nil, err.
local function wait(target, until_ms)
  while true do
    local left = until_ms - loop.now_ms()
    if left <= 0 then return true end
    local ok, err = loop.sleep_ms(math.min(TICK_MS, left))
    if not ok then return nil, err end
    local stat = proc.stat(target.pid)
    if not stat or stat.state == "Z" or stat.state == "X" or (target.start_time and stat.start_time ~= target.start_time) then
      return false
    end
  end
end

local function source_of(metrics)
  for _, count in pairs(metrics) do
    if count.source == "perf" then return "linux-perf-stat" end
  end
  return "linux-proc"
end

local function refused(target, err)
  if err.kind ~= "PermissionDenied" then return err end
  return errors.new("PermissionDenied", err.message, { process_id = target.pid, hints = {
    hints.new("inspect_process", "See what is missing, and its cure.", { view = "preflight", processId = target.pid }, "high"),
  } })
end

local function capture(ctx, target, args)
  local counts <close>, err = counting.open(target.pid)
  if not counts then return nil, refused(target, err) end
  local started_unix_ms = loop.unix_ms()
  local _ <close> = progress.start(ctx, { seconds = args.durationSeconds, message = "Counting" })
  local whole
  whole, err = wait(target, loop.now_ms() + args.durationSeconds * 1000)
  if whole == nil then return nil, err end
  local read
  read, err = counts:read()
  if not read then return nil, err end
  read.whole, read.started_unix_ms = whole, started_unix_ms
  return read
end

local function sentence(out, seconds)
  local said = { ("Process %d used %s cores over %.1f s"):format(out.processId, out.cpuCores or "an unknown number of", seconds) }
  said[#said + 1] = out.ipc and ("%.2f instructions a cycle"):format(out.ipc) or "no hardware counters"
  if out.contextSwitches then said[#said + 1] = ("%.0f context switches a second"):format(out.contextSwitches / seconds) end
  if out.pageFaults then said[#said + 1] = ("%d page faults (%d from disk)"):format(out.pageFaults, out.majorFaults or 0) end
  return table.concat(said, ", ") .. "."
end

local function next_steps(out, seconds)
  local pid, list = out.processId, {}
  if (out.contextSwitches or 0) / seconds >= SWITCHES_S then
    list[#list + 1] = hints.new("collect_sample", "Many context switches: see where threads leave the processor, and who wakes them.",
      { kind = "off_cpu", processId = pid }, "high")
  end
  if (out.majorFaults or 0) / seconds >= MAJOR_S then
    list[#list + 1] = hints.new("inspect_process", "Pages are read from disk: see memory and its pressure.",
      { view = "container", processId = pid })
  end
  list[#list + 1] = hints.new("collect_sample", out.ipc and out.ipc < LOW_IPC and "Few instructions a cycle: see which code runs."
    or "See which code runs.", { kind = "cpu", processId = pid })
  return list
end

local function run(ctx, args)
  local target, err = process.without_socket(ctx, args.processId)
  if not target then return nil, err end
  local program = stopped.program(target.pid)
  local read
  read, err = capture(ctx, target, args)
  if not read then return nil, err end
  local notes, seconds = json.array({}), math.max(read.elapsed_ms, 1) / 1000
  local out = setmetatable({
    processId = target.pid, startedAt = numbers.iso(read.started_unix_ms), duration = numbers.timespan(read.elapsed_ms),
    source = source_of(read.metrics), threads = read.threads, notes = notes,
  }, ORDER)
  fill(out, notes, read.metrics)
  out.cpuCores = out.taskClockMs and numbers.round(out.taskClockMs / read.elapsed_ms, 3)
  thread_notes(read, notes)
  stopped.note(target.pid, notes, program)
  if not read.whole then notes[#notes + 1] = "EndedEarly: the process ended within the window." end
  return out, { summary = sentence(out, seconds), process = target, hints = next_steps(out, seconds) }
end

return {
  risk = {
    level = "moderate", target_impact = "low", data_exposure = "none",
    reason = "The kernel counts events of the process's threads; nothing is read of it.",
  },
  task = true, data_field = "cpuEfficiency", payload = "CpuEfficiencySnapshot",
  description = "Instructions a cycle, misses, faults, switches and CPU time of the whole window.", run = run,
}
