-- SPDX-License-Identifier: MIT
-- A watch over made-up readings of the runtime: when it captures, when it ends, and what it reports of each kind of capture.
local captures = require("lunette.captures")
local collect_events = require("tools.collect_events")
local handles = require("lunette.handles")
local kit = require("support.framework_kit")
local loop = require("lunette.loop")
local probe = require("lunette.probe")
local process = require("lunette.process")
local program = require("collectors.counters.program")
require("tools.query_snapshot") -- announces what hints may ask of it

local SECOND_NS <const> = 1000000000
local TARGET <const> = { pid = 42, start_time = 5, start_unix_ms = 0, digest = {
  processId = 42, runtime = "CoreClr", canSampleCpu = true, canCollectGcDump = true, autoResolved = false } }
local real = { run = probe.run, new = program.new, resolve = process.resolve }

local fed -- readings that the window gave before it was interrupted, or all

local function reading(name, value, i)
  return { provider = "System.Runtime", name = "EventCounters", time_ns = i * SECOND_NS, fields = {
    Name = name, Mean = value, Count = 1, CounterType = "Mean", IntervalSec = 1, Series = "Interval=1000",
  } }
end

-- A window that gives these readings of one counter, some time apart.
local function window_of(name, values, ended)
  fed = 0
  function program.new(providers, with_meters, on_event)
    local made = real.new(providers, with_meters, on_event)
    made.on_event = on_event
    return made
  end
  function probe.run(_, made, options)
    for i, value in ipairs(values) do
      if options.interrupted() then break end
      made.on_event(reading(name, value, i))
      fed = i
      loop.sleep_ms(5) -- what was started has time to begin
    end
    local how = options.interrupted() and "interrupted" or ended or "deadline"
    return { window = { ended = how, elapsed_ms = options.duration_ms, lost = 0 } }
  end
end

-- Announces a capture that makes a handle of that kind; gives the arguments that it was called with.
local function announce(capture_kind, handle_kind, view, result)
  local taken = {}
  captures.announce(capture_kind, { view = view, capture = function(_, target, args)
    taken[#taken + 1] = { pid = target.pid, kind = args.captureKind }
    if result then return result end
    return { handle = handles.put { kind = handle_kind, artifact = {}, origin = "trace", process_id = target.pid } }
  end })
  return taken
end

local function watch(more)
  local arguments = { kind = "counters", triggerWhen = "threadCount>10", windowSeconds = 60, sampleIntervalSeconds = 1 }
  for name, value in pairs(more) do arguments[name] = value end
  local envelope = kit.call(collect_events, arguments)
  if envelope.safetyApproval then envelope = kit.call(collect_events, envelope.hints[1].suggestedArguments) end
  if envelope.data then assert(kit.conforms(envelope, collect_events)) end
  return envelope.data and envelope.data.gatedCapture, envelope
end

describe("a watch", function()
  before_each(function() process.resolve = function() return TARGET end end)
  after_each(function()
    probe.run, program.new, process.resolve = real.run, real.new, real.resolve
    for _, kind in ipairs { "cpu-sample", "heap", "thread-snapshot", "dump" } do captures.forget(kind) end
    handles.clear()
  end)

  for _, case in ipairs {
    { "cpu-sample", "cpu-sample", "top-methods" }, { "heap", "heap-snapshot", "top-types" },
    { "thread-snapshot", "thread-snapshot", "top-blocked" },
  } do
    local capture_kind, handle_kind, first_view = table.unpack(case)
    it("answers a handle of the ordinary kind, and a hint at it of high priority: " .. capture_kind, function()
      window_of("threadpool-thread-count", { 3, 11, 12 })
      local taken = announce(capture_kind, handle_kind, first_view)
      local gated, envelope = watch { captureKind = capture_kind }
      assert.same({ { pid = 42, kind = capture_kind } }, taken)
      assert.same({ "threadCount>10", capture_kind, true, 1, 60 },
        { gated.predicate, gated.captureKind, gated.tripped, #gated.captures, gated.windowSeconds })
      local record = gated.captures[1]
      assert.same({ 11, handle_kind }, { record.triggerValue, record.handleKind })
      assert.is_nil(record.dumpPath or record.error)
      assert.equal(handle_kind, assert(handles.get(record.handle)).kind)
      local hint = envelope.hints[1]
      assert.same({ "query_snapshot", "high", { handle = record.handle, view = first_view } },
        { hint.nextTool, hint.priority, hint.suggestedArguments })
      assert.is_nil(envelope.handle) -- the watch itself keeps nothing
    end)
  end

  it("answers the path of a dump, and takes none without confirmDump", function()
    window_of("threadpool-thread-count", { 11 })
    local taken = announce("dump", nil, nil, { dump_path = "dumps/42.dmp" })
    local _, refused = watch { captureKind = "dump" }
    assert.same({ "InvalidArgument", "confirmDump", 0 }, { refused.error.kind, refused.error.detail, #taken })
    _, refused = watch { captureKind = "dump", confirmDump = false }
    assert.same({ "confirmDump", 0 }, { refused.error.detail, #taken })
    local gated = watch { captureKind = "dump", confirmDump = true }
    assert.same({ "dumps/42.dmp", 1 }, { gated.captures[1].dumpPath, #taken })
    assert.is_nil(gated.captures[1].handle or gated.captures[1].handleKind)
  end)

  it("takes nothing of high risk before it is approved", function()
    window_of("threadpool-thread-count", { 11 })
    local taken = announce("heap", "heap-snapshot")
    local preview = kit.call(collect_events,
      { kind = "counters", triggerWhen = "threadCount>10", captureKind = "heap", windowSeconds = 60 })
    assert.is_table(preview.safetyApproval)
    assert.same({ 0, 0 }, { #taken, fed })
  end)

  it("ends with its last capture, before the window is over", function()
    window_of("threadpool-thread-count", { 20, 20, 20, 20, 20, 20, 20, 20 })
    announce("cpu-sample", "cpu-sample")
    local gated = watch { captureKind = "cpu-sample" }
    assert.same({ 1, true }, { #gated.captures, gated.tripped })
    assert.is_true(fed < 8, fed)
    window_of("threadpool-thread-count", { 20, 20, 20, 20, 20, 20, 20, 20 })
    assert.equal(3, #watch({ captureKind = "cpu-sample", maxCaptures = 3 }).captures)
    assert.is_true(fed >= 3 and fed < 8, fed)
  end)

  it("is a success that captured nothing when the threshold is never crossed", function()
    window_of("threadpool-thread-count", { 3, 10, 7 })
    local taken = announce("cpu-sample", "cpu-sample")
    local gated, envelope = watch { captureKind = "cpu-sample" }
    assert.is_nil(envelope.error)
    assert.same({ false, 0, 3, 10, 3 }, { gated.tripped, #gated.captures, gated.samplesObserved, gated.peakValue, fed })
    assert.same({}, taken)
    assert.matches("did not hold", envelope.summary, 1, true)
    assert.same({ "collect_events", "counters" }, { envelope.hints[1].nextTool, envelope.hints[1].suggestedArguments.kind })
  end)

  it("sends nobody to a process that ended while it was watched", function()
    window_of("threadpool-thread-count", { 3, 10 }, "stream-end")
    announce("cpu-sample", "cpu-sample")
    local gated, envelope = watch { captureKind = "cpu-sample" }
    assert.is_false(gated.tripped)
    assert.matches("when the process ended", envelope.summary, 1, true)
    assert.same({}, envelope.hints)
  end)

  it("has no peak when no sample came, and never 0", function()
    window_of("threadpool-thread-count", {})
    announce("cpu-sample", "cpu-sample")
    local gated = watch { captureKind = "cpu-sample" }
    assert.same({ 0, false }, { gated.samplesObserved, gated.tripped })
    assert.is_nil(gated.peakValue)
  end)

  for metric, case in pairs {
    cpu = { "cpu-usage", first_is_stale = true }, gcHeapMb = { "gc-heap-size" }, rssMb = { "working-set" },
    threadCount = { "threadpool-thread-count" }, activeTimerCount = { "active-timer-count" },
  } do
    it("compares by each operator, to the farthest value: " .. metric, function()
      announce("cpu-sample", "cpu-sample")
      for op, wanted in pairs { [">"] = { 30, 30 }, [">="] = { 20, 20 }, ["<"] = { 10, 10 }, ["<="] = { 20, 20 } } do
        local values = op:sub(1, 1) == ">" and { 10, 20, 30 } or { 30, 20, 10 }
        if case.first_is_stale then table.insert(values, 1, op:sub(1, 1) == ">" and 99 or 0) end
        window_of(case[1], values)
        local gated = watch { triggerWhen = metric .. op .. "20", captureKind = "cpu-sample" }
        assert.equal(wanted[1], gated.captures[1].triggerValue, metric .. op)
        assert.is_true(op:sub(1, 1) == ">" and gated.peakValue >= wanted[2] or op:sub(1, 1) == "<" and gated.peakValue <= wanted[2], op)
      end
    end)
  end

  it("takes the capture that is under way along when its caller goes away", function()
    window_of("threadpool-thread-count", { 11, 12 })
    local began, ended = false, nil
    captures.announce("cpu-sample", { capture = function()
      began = true
      loop.on_cleanup(function() ended = true end)
      loop.sleep_ms(600000)
      return nil, { kind = "Internal", message = "nobody cancelled it" }
    end })
    local call = loop.spawn(function() return watch { captureKind = "cpu-sample" } end)
    while not began do loop.sleep_ms(2) end
    call:cancel("the client goes away")
    call:await(30000)
    for _ = 1, 5000 do
      if ended then break end
      loop.sleep_ms(2)
    end
    assert.is_true(ended)
  end)

  it("makes a record of a capture that failed, and goes on", function()
    window_of("threadpool-thread-count", { 11, 12, 13, 14, 15 })
    captures.announce("cpu-sample", { capture = function() return nil, { kind = "NotSupported", message = "not here" } end })
    local gated, envelope = watch { captureKind = "cpu-sample", maxCaptures = 2 }
    assert.same({ 2, "NotSupported", "not here" }, { #gated.captures, gated.captures[1].error.kind, gated.captures[1].error.message })
    assert.is_nil(envelope.error)
    assert.matches("0 of 2 captures", envelope.summary, 1, true)
  end)
end)
