-- SPDX-License-Identifier: MIT
-- memory_trend: how the memory of any process moves over a window, by plain reads of the kernel's files.
local errors = require("lunette.errors")
local hints = require("lunette.hints")
local json = require("lunette.json")
local loop = require("lunette.loop")
local numbers = require("lunette.numbers")
local proc = require("lunette.proc")
local process = require("lunette.process")
local progress = require("lunette.progress")

local M = {}

M.THRESHOLD_BYTES_PER_S = 1024 * 1024
local SAMPLE_ORDER <const> = { __order = {
  "timestamp", "rssBytes", "pssBytes", "privateAnonBytes", "majorFaults", "minorFaults" } }

--- One reading, or nil, err. smaps_rollup needs the right to read the process's memory map; without it PSS is absent and said why.
---@param pid integer
---@param notes table   keyed by text, so that each is told once
local function sample(pid, notes)
  local stat, err = proc.stat(pid)
  if not stat then return nil, err end
  local rollup, why = proc.smaps_rollup(pid)
  if not rollup then
    if why.kind == "Cancelled" then return nil, why end
    local note = "PSS and anonymous memory are not known: " .. tostring(why.message or why)
    if not notes[note] then notes[note], notes[#notes + 1] = true, note end
    rollup = {}
  end
  local now = loop.unix_ms()
  return setmetatable({
    timestamp = numbers.iso(now), rssBytes = rollup.rss_bytes or stat.rss_bytes, pssBytes = rollup.pss_bytes,
    privateAnonBytes = rollup.anonymous_bytes, majorFaults = stat.major_faults, minorFaults = stat.minor_faults,
  }, SAMPLE_ORDER), { unix_ms = now, at_ms = loop.now_ms(), start_time = stat.start_time }
end

local function rate(first, last, seconds)
  if not first or not last or seconds <= 0 then return nil end
  return numbers.round((last - first) / seconds, 3)
end

--- First-to-last rates and the verdict.
---@param samples table[]
---@param seconds number   between the first and the last
function M.judge(samples, seconds)
  local first, last = samples[1], samples[#samples]
  local deltas = {
    rssBytesPerSec = rate(first.rssBytes, last.rssBytes, seconds) or 0.0, pssBytesPerSec = rate(first.pssBytes, last.pssBytes, seconds),
    majorFaultsPerSec = rate(first.majorFaults, last.majorFaults, seconds),
  }
  local verdict = "stable"
  if deltas.rssBytesPerSec > M.THRESHOLD_BYTES_PER_S then verdict = "growing" end
  if deltas.rssBytesPerSec < -M.THRESHOLD_BYTES_PER_S then verdict = "shrinking" end
  return deltas, verdict
end

-- Samples until the window is over: the first at once, the last at its end. Returns samples and their times, or nil, err.
local function watch(pid, start_time, args, notes)
  local samples, times = {}, {}
  local began = loop.now_ms()
  local window_ms, every_ms = args.durationSeconds * 1000, args.sampleEverySeconds * 1000
  local due = 0
  while true do
    local row, time = sample(pid, notes)
    local replaced = row and start_time and time.start_time ~= start_time
    if not row and time.kind ~= "ProcessNotFound" then return nil, time end
    if not row or replaced then
      if #samples < 2 then return nil, errors.new("ProcessNotFound", ("Process %d ended within the window."):format(pid)) end
      notes[#notes + 1] = "ProcessEnded: the process ended within the window; the samples are those until then"
      break
    end
    samples[#samples + 1], times[#times + 1] = row, time
    if due >= window_ms then break end
    due = math.min(window_ms, due + every_ms)
    local ok, err = loop.sleep_ms(math.max(0, began + due - loop.now_ms()))
    if not ok then return nil, err end
  end
  return samples, times
end

local function hints_of(verdict, pid)
  if verdict == "growing" then
    return {
      hints.new("inspect_heap", "Memory grows: see what holds it.", { source = "live", processId = pid }, "high"),
      hints.new("inspect_process", "Compare with the limits of its container.", { view = "container", processId = pid }),
    }
  end
  return { hints.new("collect_events", "Memory does not grow: read the counters.", { kind = "counters", processId = pid }) }
end

--- inspect_process(view="memory_trend").
function M.run(ctx, args)
  local target, err = process.resolve(ctx, args.processId, { any = true })
  if not target then return nil, err end
  local ticker <close> = progress.start(ctx, { seconds = args.durationSeconds, message = "Watching memory" })
  local notes = {}
  local samples, times = watch(target.pid, target.start_time, args, notes)
  ticker:stop()
  if not samples then return nil, times end
  local first, last = times[1], times[#times]
  local deltas, verdict = M.judge(samples, (last.at_ms - first.at_ms) / 1000)
  local texts = {}
  for i, note in ipairs(notes) do texts[i] = note end
  return {
    processId = target.pid, windowStart = numbers.iso(first.unix_ms), windowEnd = numbers.iso(last.unix_ms), samples = json.array(samples),
    deltas = deltas, verdict = verdict, notes = json.array(texts),
  }, {
    summary = ("Process %d: memory is %s, RSS %.1f MB, %+.3f MB/s over %.0f s."):format(target.pid, verdict,
      samples[#samples].rssBytes / 1048576, deltas.rssBytesPerSec / 1048576, (last.at_ms - first.at_ms) / 1000),
    hints = hints_of(verdict, target.pid), process = target,
  }
end

return M
