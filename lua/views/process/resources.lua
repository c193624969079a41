-- SPDX-License-Identifier: MIT
-- resources: descriptors, sockets and limits of any process, and how much of its memory the managed heap explains.
local counters = require("collectors.counters")
local errors = require("lunette.errors")
local json = require("lunette.json")
local loop = require("lunette.loop")
local numbers = require("lunette.numbers")
local proc = require("lunette.proc")
local process = require("lunette.process")
local progress = require("lunette.progress")
local rules = require("lunette.rules.index")
local sampling = require("views.process.sampling")
local snapshot = require("collectors.counters.snapshot")
local thresholds = require("lunette.thresholds")

local M = {}

M.PROBE_SECONDS = 2        -- the window for gc-heap-size,
M.INTERVAL_SECONDS = 1     -- which the runtime gives each interval
local MB <const> = 1000000 -- as the runtime counts
local RUNTIME <const> = "System.Runtime"
local NATIVE_NOTE <const> = "RSS is much larger than the managed heap: native allocations, fragmentation, pinned objects, mapped files or "
  .. "unmanaged libraries hold the rest."
local ORDER <const> = { __order = {
  "processId", "capturedAt", "fdCount", "fd", "sockets", "limits", "managedVsNative", "notes", "trend" } }

local function add_note(notes, text)
  if notes[text] then return end
  notes[text], notes[#notes + 1] = true, text
end

-- ---- one reading --------------------------------------------------------------------------------------------------------------

local function limits_of(pid, fd_count, notes)
  local limits, err = proc.limits(pid)
  if not limits then
    add_note(notes, "limits: " .. tostring(err.message or err))
    return nil
  end
  local soft, hard = math.tointeger(limits.nofile_soft), math.tointeger(limits.nofile_hard)
  return {
    noFileSoft = soft, noFileHard = hard, noFileUsageFraction = fd_count and soft and soft > 0 and numbers.round(fd_count / soft, 4) or nil,
  }
end

--- ProcessResourcesSample of now, or nil, err.
local function sample(pid, notes)
  local row = { timestamp = numbers.iso(loop.unix_ms()) }
  local fds, err = proc.fds(pid)
  if fds then
    row.fdCount = fds.count
    row.fd = { sockets = fds.sockets, regular = fds.regular, pipes = fds.pipes, eventfds = fds.eventfds, other = fds.other }
    local tcp = fds.tcp
    row.sockets = tcp and {
      established = tcp.established, timeWait = tcp.time_wait, closeWait = tcp.close_wait, listen = tcp.listen, other = tcp.other,
    }
    for _, note in ipairs(fds.notes) do add_note(notes, note) end
  else
    if err.kind == "Cancelled" or err.kind == "ProcessNotFound" then return nil, err end
    add_note(notes, "descriptors: " .. tostring(err.message or err) .. (err.hint and "; " .. err.hint or ""))
  end
  row.limits = limits_of(pid, row.fdCount, notes)
  return row
end

-- ---- managed against native -----------------------------------------------------------------------------------------------------

-- The managed heap of a process by its own counter: bytes, or nil and a note, or nil, nil, err when cancelled.
local function heap_bytes(ctx, target)
  if not target.endpoint then
    return nil, "gcHeapBytes: " .. tostring(target.why_not and (target.why_not.message or target.why_not) or "it is no .NET process")
  end
  local quiet = setmetatable({ progress = function() end }, { __index = ctx }) -- the window reports already
  local artifact, err = counters.collect(quiet, { process = target },
    { providers = { RUNTIME }, interval_s = M.INTERVAL_SECONDS, duration_s = M.PROBE_SECONDS, max_series = 1 })
  if not artifact then return nil, "gcHeapBytes: " .. tostring(err.message or err), err.kind == "Cancelled" and err or nil end
  local counter = snapshot.find(artifact, RUNTIME, "gc-heap-size")
  if not counter or not counter.series.last then
    return nil, ("gcHeapBytes: no gc-heap-size value came within %g s"):format(M.PROBE_SECONDS)
  end
  return math.floor(counter.series.last * MB + 0.5)
end

-- Reads the heap near the end of the window, beside the sampling.
local function start_heap_probe(ctx, target, window_s)
  return loop.spawn(function()
    local ok, err = loop.sleep_ms(math.max(0, window_s - M.PROBE_SECONDS) * 1000)
    if not ok then return nil, nil, err end
    return heap_bytes(ctx, target)
  end)
end

--- ManagedVsNative from the two figures. heap nil: not known, and then nothing is concluded.
function M.split(rss, heap)
  local limits = thresholds.of("memory.native")
  local dominated = heap ~= nil and rss - heap > limits.gap_bytes and heap / rss < limits.heap_ratio
  return {
    rssBytes = rss, gcHeapBytes = heap, rssMinusGcHeapBytes = heap and rss - heap,
    gcHeapToRssRatio = heap and rss > 0 and numbers.round(heap / rss, 4) or nil, rssDominated = dominated,
    interpretation = dominated and NATIVE_NOTE or heap and "The managed heap and the usual size of a runtime explain RSS." or nil,
  }
end

-- ManagedVsNative, or nil without a reading of RSS, or nil, err.
local function managed_vs_native(target, heap_probe, notes)
  local heap, note, cancelled = heap_probe:await()
  if cancelled then return nil, cancelled end
  if type(note) == "table" then return nil, note end -- the probe's own task was cancelled, or failed by a bug
  if note then add_note(notes, note) end
  local status = proc.status(target.pid)
  if not status or not status.rss_bytes then
    add_note(notes, "managedVsNative: the resident size is not known")
    return nil
  end
  local split = M.split(status.rss_bytes, heap)
  if split.rssDominated then add_note(notes, NATIVE_NOTE) end
  return split
end

-- ---- the answer ---------------------------------------------------------------------------------------------------------------

--- What the figures suggest, by the hint rules for resources.
---@param report table    ProcessResources
---@param rows table[]    its samples, oldest first
function M.hints(report, rows)
  return rules.hints("resources", {
    artifact = { report = report, first = rows[1], last = rows[#rows], samples = #rows }, process_id = report.processId,
  })
end

local function summary_of(report)
  local parts = {}
  if report.fdCount then
    local limit = report.limits and report.limits.noFileSoft
    parts[#parts + 1] = ("%d descriptors%s"):format(report.fdCount, limit and (" of %d"):format(limit) or "")
  end
  if report.sockets then
    parts[#parts + 1] = ("TCP %d established, %d close-wait, %d time-wait, %d listening"):format(report.sockets.established,
      report.sockets.closeWait, report.sockets.timeWait, report.sockets.listen)
  end
  local m = report.managedVsNative
  if m then
    parts[#parts + 1] = ("RSS %.1f MB, managed heap %s"):format(m.rssBytes / 1048576,
      m.gcHeapBytes and ("%.1f MB"):format(m.gcHeapBytes / 1048576) or "unknown")
  end
  return ("Process %d: %s."):format(report.processId, #parts > 0 and table.concat(parts, "; ") or "nothing could be read")
end

--- durationSeconds is 0 (one snapshot) or at least 2.
function M.check(args)
  if args.durationSeconds == 1 then
    return nil, errors.invalid("durationSeconds", "durationSeconds is 0 for one snapshot, or at least 2 for a trend; 1 is neither.")
  end
  return true
end

local function texts_of(notes)
  local texts = {}
  for i, note in ipairs(notes) do texts[i] = note end
  return json.array(texts)
end

--- ProcessResources of now, with the managed heap as somebody else has measured it; or nil, err. Opens no session.
---@param target TargetProcess
---@param heap integer?   bytes; nil: not known
---@return table? report, table? err
function M.now(target, heap)
  local notes = {}
  local row, err = sample(target.pid, notes)
  if not row then return nil, err end
  local status = proc.status(target.pid)
  if not status or not status.rss_bytes then add_note(notes, "managedVsNative: the resident size is not known") end
  local split = status and status.rss_bytes and M.split(status.rss_bytes, heap) or nil
  if split and split.rssDominated then add_note(notes, NATIVE_NOTE) end
  return setmetatable({
    processId = target.pid, capturedAt = row.timestamp, fdCount = row.fdCount, fd = row.fd, sockets = row.sockets, limits = row.limits,
    notes = texts_of(notes), managedVsNative = split,
  }, ORDER)
end

--- inspect_process(view="resources").
function M.run(ctx, args)
  local target, err = process.resolve(ctx, args.processId, { any = true })
  if not target then return nil, err end
  local seconds = math.max(args.durationSeconds, M.PROBE_SECONDS)
  local ticker <close> = progress.start(ctx, { seconds = seconds, message = "Watching resources" })
  local notes = {}
  local heap_probe = start_heap_probe(ctx, target, args.durationSeconds)
  local window = { seconds = args.durationSeconds, every_seconds = args.sampleEverySeconds, at_least = 1 }
  local rows, times, ended = sampling.watch(target, window, function() return sample(target.pid, notes) end)
  if not rows then
    heap_probe:cancel("the window failed")
    return nil, times
  end
  if ended then add_note(notes, "ProcessEnded: the process ended within the window; the samples are those until then") end
  local split
  split, err = managed_vs_native(target, heap_probe, notes)
  if not split and err then return nil, err end
  ticker:stop()
  local last = rows[#rows]
  local shown, thinned = sampling.thin(rows)
  if thinned then add_note(notes, thinned) end
  local report = setmetatable({
    processId = target.pid, capturedAt = last.timestamp, fdCount = last.fdCount, fd = last.fd, sockets = last.sockets,
    limits = last.limits, notes = texts_of(notes), managedVsNative = split,
    trend = args.durationSeconds > 0 and { samples = json.array(shown) } or nil,
  }, ORDER)
  return report, { summary = summary_of(report), hints = M.hints(report, rows), process = target }
end

return M
