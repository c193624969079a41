-- SPDX-License-Identifier: MIT
-- memory_trend: how the memory of any process moves over a window, by plain reads of the kernel's files.
local json = require("lunette.json")
local loop = require("lunette.loop")
local numbers = require("lunette.numbers")
local proc = require("lunette.proc")
local process = require("lunette.process")
local progress = require("lunette.progress")
local rules = require("lunette.rules.index")
local sampling = require("views.process.sampling")
local thresholds = require("lunette.thresholds")

local M = {}

local SAMPLE_ORDER <const> = { __order = {
  "timestamp", "rssBytes", "pssBytes", "privateAnonBytes", "majorFaults", "minorFaults" } }

local function add_note(notes, text)
  if notes[text] then return end
  notes[text], notes[#notes + 1] = true, text
end

--- One reading, or nil, err. smaps_rollup needs the right to read the process's memory map; without it PSS is absent and said why.
local function sample(pid, stat, notes)
  local rollup, why = proc.smaps_rollup(pid)
  if not rollup then
    if why.kind == "Cancelled" or why.kind == "ProcessNotFound" then return nil, why end
    add_note(notes, "PSS and anonymous memory are not known: " .. tostring(why.message or why))
    rollup = {}
  end
  return setmetatable({
    timestamp = numbers.iso(loop.unix_ms()), rssBytes = rollup.rss_bytes or stat.rss_bytes, pssBytes = rollup.pss_bytes,
    privateAnonBytes = rollup.anonymous_bytes, majorFaults = stat.major_faults, minorFaults = stat.minor_faults,
  }, SAMPLE_ORDER)
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
  local verdict, limits = "stable", thresholds.of("memory.trend")
  if deltas.rssBytesPerSec > limits.growing_bytes_per_s then verdict = "growing" end
  if deltas.rssBytesPerSec < -limits.shrinking_bytes_per_s then verdict = "shrinking" end
  return deltas, verdict
end

local function texts_of(notes)
  local texts = {}
  for i, note in ipairs(notes) do texts[i] = note end
  return json.array(texts)
end

--- inspect_process(view="memory_trend").
function M.run(ctx, args)
  local target, err = process.resolve(ctx, args.processId, { any = true })
  if not target then return nil, err end
  local ticker <close> = progress.start(ctx, { seconds = args.durationSeconds, message = "Watching memory" })
  local notes = {}
  local window = { seconds = args.durationSeconds, every_seconds = args.sampleEverySeconds, at_least = 2 }
  local samples, times, ended = sampling.watch(target, window, function(stat) return sample(target.pid, stat, notes) end)
  ticker:stop()
  if not samples then return nil, times end
  if ended then add_note(notes, "ProcessEnded: the process ended within the window; the samples are those until then") end
  local seconds = (times[#times] - times[1]) / 1000
  local deltas, verdict = M.judge(samples, seconds)
  local first, last = samples[1], samples[#samples]
  local shown, thinned = sampling.thin(samples)
  if thinned then add_note(notes, thinned) end
  return {
    processId = target.pid, windowStart = first.timestamp, windowEnd = last.timestamp, samples = json.array(shown), deltas = deltas,
    verdict = verdict, notes = texts_of(notes),
  }, {
    summary = ("Process %d: memory is %s, RSS %.1f MB, %+.3f MB/s over %.0f s."):format(target.pid, verdict, last.rssBytes / 1048576,
      deltas.rssBytesPerSec / 1048576, seconds),
    hints = rules.hints("memory-trend", { artifact = { verdict = verdict, deltas = deltas }, process_id = target.pid }), process = target,
  }
end

return M
