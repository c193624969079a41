-- SPDX-License-Identifier: MIT
-- inspect_process(view="resources").
local fake = require("support.fake_machine")

local MB <const> = 1024 * 1024

local function view_on(p)
  local machine = fake.new { processes = { p } }
  local view = machine:load("views.process.resources")
  view.PROBE_SECONDS, view.INTERVAL_SECONDS = 0.02, 0.01
  package.loaded["collectors.window"].SETTLE_MS = 0
  package.loaded["collectors.counters"].GRACE_MS = 50
  return view, machine
end

local function heap_event(mb)
  local payload = {
    Name = "gc-heap-size", DisplayName = "GC Heap Size", Mean = mb, StandardDeviation = 0, Count = 1, Min = mb, Max = mb, IntervalSec = 1.0,
    Series = "Interval=1000", CounterType = "Mean", Metadata = "", DisplayUnits = "MB",
  }
  return { {
    provider = "System.Runtime", name = "EventCounters", id = 1, time_ns = 1000000000, unix_ns = 0, thread = 1,
    fields = { Payload = payload },
  } }
end

local function run(p, seconds, every)
  return view_on(p).run(fake.ctx(), { processId = p.pid, durationSeconds = seconds or 0, sampleEverySeconds = every or 2 })
end

describe("views.process.resources", function()
  it("durationSeconds 0 is one snapshot, 1 is InvalidArgument, 2 and more gives a trend", function()
    local view = view_on(fake.process { pid = 5 })
    assert.is_true(view.check { durationSeconds = 0 })
    assert.is_true(view.check { durationSeconds = 2 })
    local ok, err = view.check { durationSeconds = 1 }
    assert.is_nil(ok)
    assert.same({ "InvalidArgument", "durationSeconds" }, { err.kind, err.detail })
    assert.is_nil(run(fake.process { pid = 5 }).trend)
    local report = run(fake.process { pid = 5 }, 0.03, 0.01)
    assert.equal(4, #report.trend.samples)
  end)

  it("the top level equals the newest trend sample", function()
    local report = run(fake.process { pid = 5, on_fds = function(p, n)
      p.fds = {
        count = 100 + n, sockets = n, regular = 1, pipes = 1, eventfds = 1, other = 1, unclassified = 0, notes = {},
        tcp = { established = n, time_wait = 0, close_wait = 0, listen = 0, other = 0 },
      }
    end }, 0.03, 0.01)
    local newest = report.trend.samples[#report.trend.samples]
    assert.equal(104, report.fdCount)
    assert.same({ newest.fdCount, newest.fd, newest.sockets, newest.limits, newest.timestamp },
      { report.fdCount, report.fd, report.sockets, report.limits, report.capturedAt })
  end)

  it("gives descriptors by class, TCP by state, and the limit's fraction; an unlimited limit is null", function()
    local report = run(fake.process { pid = 5 })
    assert.same({ sockets = 4, regular = 10, pipes = 3, eventfds = 2, other = 1 }, report.fd)
    assert.same({ established = 2, timeWait = 0, closeWait = 0, listen = 1, other = 1 }, report.sockets)
    assert.same({ noFileSoft = 1024, noFileUsageFraction = 0.0195 }, report.limits)
    assert.is_nil(report.handleCount)
  end)

  it("resources of a pid that is no .NET process: gcHeapBytes null and a note, the rest filled", function()
    local p = fake.process { pid = 5 }
    p.runtime = nil
    local report, extras = run(p)
    assert.equal(20, report.fdCount)
    assert.same({ rssBytes = 100 * MB, rssDominated = false }, report.managedVsNative)
    assert.matches("gcHeapBytes: process 5 is not a %.NET process", report.notes[1])
    assert.equal("Unknown", extras.process.digest.runtime)
  end)

  it("reads the managed heap by its counter, and stops the session", function()
    local p = fake.process { pid = 5, events = { heap_event(80) } }
    local view, machine = view_on(p)
    local report = view.run(fake.ctx(), { processId = 5, durationSeconds = 0, sampleEverySeconds = 2 })
    assert.equal(80000000, report.managedVsNative.gcHeapBytes)
    assert.equal(100 * MB - 80000000, report.managedVsNative.rssMinusGcHeapBytes)
    assert.is_false(report.managedVsNative.rssDominated)
    assert.equal(1, #machine.sessions)
    assert.equal("System.Runtime", machine.sessions[1].providers[1].name)
    assert.equal(0, machine.open_sessions)
  end)

  it("says why the heap is not known when no session can be opened or no value comes", function()
    local report = run(fake.process { pid = 5, no_session = "all session slots are in use" })
    assert.is_nil(report.managedVsNative.gcHeapBytes)
    assert.matches("all session slots are in use", report.notes[1])
    report = run(fake.process { pid = 5 })
    assert.is_nil(report.managedVsNative.gcHeapBytes)
    assert.matches("no gc%-heap%-size value", report.notes[1])
  end)

  it("rssDominated when RSS minus heap is above 64 MB and heap/RSS below 0.5", function()
    local view = view_on(fake.process { pid = 5 })
    for _, case in ipairs {
      { 200 * MB, 50 * MB, true }, { 64 * MB, 0, false }, { 65 * MB, 0, true }, { 200 * MB, 100 * MB, false },
      { 1000 * MB, 800 * MB, false },
    } do
      local split = view.split(case[1], case[2])
      assert.equal(case[3], split.rssDominated)
      assert.equal(case[1] - case[2], split.rssMinusGcHeapBytes)
    end
    assert.same({ rssBytes = 9, rssDominated = false }, view.split(9, nil))
  end)

  it("rising close-wait above 100, descriptors above 85 % and rssDominated hint event_source, a dump and inspect_heap", function()
    local view = view_on(fake.process { pid = 5 })
    local function tools(rows, split)
      local names = {}
      for i, hint in ipairs(view.hints({ processId = 5, managedVsNative = split }, rows)) do
        local a = hint.suggestedArguments
        names[i] = hint.nextTool .. ":" .. (a.kind or a.dumpType or a.source)
      end
      return names
    end
    local function row(close_wait, time_wait, fd, fraction)
      return {
        fdCount = fd or 10, sockets = { closeWait = close_wait, timeWait = time_wait or 0 },
        limits = { noFileUsageFraction = fraction or 0.1 },
      }
    end
    assert.same({ "collect_events:event_source" }, tools({ row(101) }))
    assert.same({ "collect_events:counters" }, tools({ row(100) }))
    assert.same({ "collect_events:counters" }, tools({ row(150), row(150) })) -- high, not rising
    assert.same({ "collect_events:event_source" }, tools({ row(90), row(101) }))
    assert.same({ "collect_process_dump:Mini" }, tools({ row(0, 0, 10, 0.86) }))
    assert.same({ "collect_events:counters" }, tools({ row(0, 0, 10, 0.85) }))
    assert.same({ "collect_events:event_source" }, tools({ row(0, 500, 10), row(0, 500, 15) })) -- churn with flat descriptors
    assert.same({ "collect_events:counters" }, tools({ row(0, 500, 10), row(0, 500, 16) }))
    assert.same({ "collect_events:counters" }, tools({ row(0, 500) })) -- one snapshot shows no churn
    assert.same({ "inspect_heap:live" }, tools({ row(0) }, { rssDominated = true }))
    assert.same({ "collect_events:event_source", "collect_process_dump:Mini", "inspect_heap:live" },
      tools({ row(101, 0, 10, 0.9) }, { rssDominated = true }))
  end)

  it("notes descriptors that may not be listed, and how to be allowed", function()
    local report = run(fake.process { pid = 5, fds = false })
    assert.is_nil(report.fdCount)
    assert.is_nil(report.fd)
    assert.is_nil(report.limits.noFileUsageFraction)
    assert.matches("descriptors: cannot list fd; run as root", report.notes[1])
  end)
end)
