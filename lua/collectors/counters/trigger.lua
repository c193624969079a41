-- SPDX-License-Identifier: MIT
-- triggerWhen: watches one counter of the runtime for at most a given time, and takes a capture when it crosses a threshold. When the call
-- has returned, nothing stays armed.
local lazy = require("lunette.lazy")
local captures = require("lunette.captures")
local collector = require("lunette.collector")
local errors = require("lunette.errors")
local event_counters = require("collectors.counters.event_counters")
local hints = require("lunette.hints")
local json = require("lunette.json")
local loop = require("lunette.loop")
local numbers = require("lunette.numbers")
local probe = lazy("lunette.probe")
local process = require("lunette.process")
local program = require("collectors.counters.program")
local text = require("lunette.text")
local window = require("collectors.window")

local M = {}

-- What a predicate may name, and the counter of System.Runtime behind it.
M.METRICS = {
  cpu = "cpu-usage", gcHeapMb = "gc-heap-size", rssMb = "working-set", threadCount = "threadpool-thread-count",
  activeTimerCount = "active-timer-count",
}
M.GRACE_MS = 800 -- past the window, for a sample that is due and not yet here
local LEVEL <const> = 4
local BUFFER_MB <const> = 16
local FORM <const> = "METRIC OP VALUE, one of cpu gcHeapMb rssMb threadCount activeTimerCount, then > >= < or <=, then a number: cpu>85"

local COMPARE <const> = {
  [">"] = function(a, b) return a > b end, [">="] = function(a, b) return a >= b end,
  ["<"] = function(a, b) return a < b end, ["<="] = function(a, b) return a <= b end,
}

local GATED_ORDER <const> = { __order = {
  "predicate", "captureKind", "samplesObserved", "peakValue", "tripped", "captures", "windowSeconds" } }
local RECORD_ORDER <const> = { __order = { "timestamp", "triggerValue", "handle", "handleKind", "dumpPath", "error" } }

---@class Predicate
---@field metric string     as written
---@field counter string    of System.Runtime
---@field op string
---@field value number
---@field text string       in one form: cpu>85
---@field holds fun(value: number): boolean

--- "cpu > 85" -> Predicate; nil, err otherwise.
---@param given string
---@return Predicate?, table? err
function M.parse(given)
  local metric, op, number = given:match("^%s*(%a+)%s*([<>]=?)%s*(%S+)%s*$")
  local value = tonumber(number)
  if not metric or not value or value ~= value or math.abs(value) == math.huge or number:find("^[+-]?0[xX]") then
    return nil, errors.invalid("triggerWhen", ("triggerWhen is %s; got %s."):format(FORM, text.quote(given)))
  end
  local counter = M.METRICS[metric]
  if not counter then
    local names = text.keys(M.METRICS)
    return nil, errors.invalid("triggerWhen", ("triggerWhen knows no metric %s.%s It is %s."):format(text.quote(metric),
      text.did_you_mean(metric, names), FORM))
  end
  local compare = COMPARE[op]
  return {
    metric = metric, counter = counter, op = op, value = value, text = metric .. op .. number,
    holds = function(measured) return compare(measured, value) end,
  }
end

--- The rules between the parameters of a watch: true, or nil, err.
function M.check(args)
  local predicate, err = M.parse(args.triggerWhen)
  if not predicate then return nil, err end
  if args.sampleIntervalSeconds > args.windowSeconds then
    return nil, errors.invalid("sampleIntervalSeconds", ("sampleIntervalSeconds must fit into windowSeconds: %d s is longer than %d s.")
      :format(args.sampleIntervalSeconds, args.windowSeconds))
  end
  if args.captureKind == "dump" and not args.confirmDump then
    return nil, errors.invalid("confirmDump", "captureKind=dump writes the memory of the target to a file: confirmDump must be true.")
  end
  return true
end

--- Why the capture cannot be taken in this build, as an error; nil when it can.
function M.unavailable(_, args)
  if not args.triggerWhen or captures.find(args.captureKind) then return nil end
  return errors.not_supported(("captureKind=%s cannot be taken: its tool is not built yet, so nothing is watched. Leave triggerWhen out "
    .. "to collect the counters, and start the capture by hand."):format(args.captureKind), {})
end

-- ---- the watch ----------------------------------------------------------------------------------------------------------------

local Watch = {}
Watch.__index = Watch

local function new_watch(ctx, target, args)
  local predicate = assert(M.parse(args.triggerWhen))
  return setmetatable({
    ctx = setmetatable({ progress = function() end }, { __index = ctx }), target = target, args = args, predicate = predicate,
    counters = event_counters.new { providers = { program.RUNTIME }, interval_s = args.sampleIntervalSeconds },
    seen = 0, peak = nil, records = {}, fired = 0,
  }, Watch)
end

-- The peak is the value furthest to the side that the predicate waits for.
local function further(predicate, a, b)
  if b == nil then return true end
  if predicate.op:sub(1, 1) == ">" then return a > b end
  return a < b
end

function Watch:fire(value)
  self.fired = self.fired + 1
  local record = { at_ms = loop.unix_ms(), value = value }
  self.records[self.fired] = record
  self.running = loop.spawn(function()
    return captures.find(self.args.captureKind).capture(self.ctx, self.target, self.args)
  end)
  self.pending = record
end

-- What the capture under way gave, once it is done. timeout_ms 0: only if it is.
function Watch:settle(wait)
  local running = self.running
  if not running or (not wait and not running:done()) then return end
  local result, err = running:await()
  if not running:done() then return end -- the watch itself was cancelled: its cleanup ends the capture
  local record = self.pending
  self.running, self.pending = nil, nil
  record.result, record.error = result, not result and errors.classify(err or "no result and no reason") or nil
end

--- Takes one event of the window.
function Watch:on_event(event)
  self.counters:add(event)
  local c = self.counters.counters[program.RUNTIME .. "\0" .. self.predicate.counter]
  if not c or c.series.n == self.seen then return end
  self.seen = c.series.n
  local value = c.series.last
  if further(self.predicate, value, self.peak) then self.peak = value end
  self:settle(false)
  if not self.running and self.fired < self.args.maxCaptures and self.predicate.holds(value) then self:fire(value) end
end

--- Whether the last capture that may be taken is over.
function Watch:over()
  self:settle(false)
  return self.fired >= self.args.maxCaptures and not self.running
end

function Watch:cancel()
  if self.running then self.running:cancel("the watch has ended") end
end

local function record_row(record)
  local result, err = record.result, record.error
  local handle = result and result.handle
  return setmetatable({
    timestamp = numbers.iso(record.at_ms), triggerValue = record.value, handle = handle and handle.id,
    handleKind = handle and handle.kind, dumpPath = result and result.dump_path,
    error = err and { kind = err.kind, message = err.message, detail = err.detail } or nil,
  }, RECORD_ORDER)
end

local function report_of(watch)
  local rows = {}
  for i, record in ipairs(watch.records) do rows[i] = record_row(record) end
  return setmetatable({
    predicate = watch.predicate.text, captureKind = watch.args.captureKind, samplesObserved = watch.seen, peakValue = watch.peak,
    tripped = watch.fired > 0, captures = json.array(rows), windowSeconds = watch.args.windowSeconds,
  }, GATED_ORDER)
end

local function plain(value) return value == math.floor(value) and ("%d"):format(value) or ("%.2f"):format(value) end

local function sentence(watch, result)
  local taken, failed = 0, nil
  for _, record in ipairs(watch.records) do
    if record.result then taken = taken + 1 else failed = failed or record.error end
  end
  local seen = ("%d samples, %s %s"):format(watch.seen, watch.predicate.op:sub(1, 1) == ">" and "highest" or "lowest",
    watch.peak and plain(watch.peak) or "unknown")
  if watch.seen == 0 then
    seen = result.ended == "deadline" and "no sample came: the window is too short, or the runtime's counters are silent"
      or "no sample came before the process ended"
  end
  if watch.fired == 0 then
    return ("Process %d: %s did not hold within %.0f s%s (%s). Nothing was captured."):format(watch.target.pid, watch.predicate.text,
      result.elapsed_ms / 1000, result.ended == "stream-end" and ", when the process ended" or "", seen)
  end
  return ("Process %d: %s held at %s; %d of %d captures of kind %s taken (%s).%s"):format(watch.target.pid, watch.predicate.text,
    plain(watch.records[1].value), taken, watch.fired, watch.args.captureKind, seen, failed and " " .. failed.message or "")
end

local function next_steps(watch, result)
  local list, declared = {}, captures.find(watch.args.captureKind)
  for _, record in ipairs(watch.records) do
    local handle = record.result and record.result.handle
    if handle then
      list[#list + 1] = hints.new("query_snapshot", ("Look at what was captured at %s=%s."):format(watch.predicate.metric,
        plain(record.value)), { handle = handle.id, view = declared and declared.view }, "high")
    end
  end
  local gone = result.ended == "stream-end" and collector.is_gone(watch.target)
  if #list == 0 and not gone then
    list[1] = hints.new("collect_events", "See all counters, and how far the metric is from the threshold.",
      { kind = "counters", processId = watch.target.pid })
  end
  return list
end

--- collect_events(kind="counters") with triggerWhen.
---@param ctx table
---@param args table
---@return table? gated_capture, table extras_or_err
function M.run(ctx, args)
  local target, err = process.resolve(ctx, args.processId)
  if not target then return nil, err end
  local ok
  ok, err = window.settle(target)
  if not ok then return nil, err end
  local watch = new_watch(ctx, target, args)
  loop.on_cleanup(function() watch:cancel() end)
  local providers = {
    { name = program.RUNTIME, keywords = 0, level = LEVEL, args = "EventCounterIntervalSec=" .. args.sampleIntervalSeconds },
  }
  local result
  result, err = probe.run(ctx, program.new(providers, false, function(event) watch:on_event(event) end), {
    process = target, duration_ms = args.windowSeconds * 1000, buffer_mb = BUFFER_MB, message = "Watching " .. watch.predicate.text,
    grace_ms = M.GRACE_MS, complete = function(elapsed_ms) return watch.counters:caught_up(elapsed_ms / 1000) end,
    interrupted = function() return watch:over() end,
  })
  watch:settle(true)
  if not result then return nil, err end
  if loop.cancelled() then return nil, errors.new("Cancelled", "The watch was cancelled.") end
  return report_of(watch), {
    data_field = "gatedCapture", summary = sentence(watch, result.window), hints = next_steps(watch, result.window), process = target,
  }
end

return M
