-- SPDX-License-Identifier: MIT
-- inspect_process(view="memory_trend").
local fake = require("support.fake_machine")

local MB <const> = 1024 * 1024

-- The view on a machine with one process; seconds are made short.
local function view_on(p)
  local machine = fake.new { processes = { p } }
  return machine:load("views.process.memory_trend"), machine
end

local function run(p, seconds, every)
  return view_on(p).run(fake.ctx(), { processId = p.pid, durationSeconds = seconds or 0.06, sampleEverySeconds = every or 0.02 })
end

describe("views.process.memory_trend", function()
  it("works on a process that is no .NET process", function()
    local p = fake.process { pid = 5 }
    p.runtime = nil
    local trend, extras = run(p)
    assert.equal(5, trend.processId)
    assert.equal("Unknown", extras.process.digest.runtime)
    assert.equal(100 * MB, trend.samples[1].rssBytes)
  end)

  it("samples at the start, at each interval and at the end", function()
    local trend = run(fake.process { pid = 5 }, 0.05, 0.02)
    assert.equal(4, #trend.samples)
    assert.same({
      timestamp = trend.samples[1].timestamp, rssBytes = 100 * MB, pssBytes = 50 * MB, privateAnonBytes = 25 * MB, majorFaults = 5,
      minorFaults = 500,
    }, trend.samples[1])
    assert.equal(trend.windowStart, trend.samples[1].timestamp)
    assert.equal(trend.windowEnd, trend.samples[4].timestamp)
  end)

  it("RSS above +1 MiB/s is growing, below -1 MiB/s shrinking, else stable", function()
    local view = view_on(fake.process { pid = 5 })
    for _, case in ipairs {
      { 0, 2 * MB, 1, "growing" }, { 0, MB, 1, "stable" }, { 0, MB + 2, 1, "growing" }, { 9 * MB, 8 * MB, 1, "stable" },
      { 9 * MB, 0, 2, "shrinking" }, { 0, 30 * MB, 30, "stable" },
    } do
      local deltas, verdict = view.judge({
        { rssBytes = case[1], majorFaults = 0, minorFaults = 0 }, { rssBytes = case[2], majorFaults = 4, minorFaults = 0 } }, case[3])
      assert.equal(case[4], verdict)
      assert.equal((case[2] - case[1]) / case[3], deltas.rssBytesPerSec)
      assert.is_true(math.abs(4 / case[3] - deltas.majorFaultsPerSec) < 0.001)
      assert.is_nil(deltas.pssBytesPerSec)
    end
  end)

  it("heapRegionBytes is always null", function()
    for _, sample in ipairs(run(fake.process { pid = 5 }).samples) do assert.is_nil(sample.heapRegionBytes) end
  end)

  it("growing hints inspect_heap live and the container view; otherwise counters", function()
    local p = fake.process { pid = 5, on_sample = function(p) p.rss = p.rss + 10 * MB end }
    local trend, extras = run(p)
    assert.equal("growing", trend.verdict)
    local function hint(i) return { extras.hints[i].nextTool, extras.hints[i].suggestedArguments } end
    assert.same({ "inspect_heap", { source = "live", processId = 5 } }, hint(1))
    assert.same({ "inspect_process", { view = "container", processId = 5 } }, hint(2))
    trend, extras = run(fake.process { pid = 5 })
    assert.equal("stable", trend.verdict)
    assert.same({ "collect_events", { kind = "counters", processId = 5 } }, hint(1))
  end)

  it("says once why PSS is absent when the memory map may not be read", function()
    local trend = run(fake.process { pid = 5, no_rollup = true })
    assert.equal(100 * MB, trend.samples[1].rssBytes)
    assert.is_nil(trend.samples[1].pssBytes)
    assert.is_nil(trend.deltas.pssBytesPerSec)
    assert.equal(1, #trend.notes)
    assert.matches("PSS and anonymous memory are not known", trend.notes[1])
  end)

  it("keeps what it saw when the process ends in the window, and fails when that is not two samples", function()
    local p = fake.process { pid = 5, on_sample = function(p, n) p.ended = n >= 2 end }
    local trend = run(p, 1, 0.01)
    assert.equal(2, #trend.samples)
    assert.matches("ProcessEnded", trend.notes[1])
    local _, err = run(fake.process { pid = 5, on_sample = function(q) q.ended = true end }, 1, 0.01)
    assert.equal("ProcessNotFound", err.kind)
  end)

  it("does not go on with another process that took the pid", function()
    local p = fake.process { pid = 5, on_sample = function(p, n) if n == 2 then p.start_time = 5555 end end }
    local trend = run(p, 1, 0.01)
    assert.equal(2, #trend.samples)
    assert.matches("ProcessEnded", trend.notes[1])
  end)
end)
