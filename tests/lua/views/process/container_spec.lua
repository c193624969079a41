-- SPDX-License-Identifier: MIT
-- inspect_process(view="container"), on fixture roots that the native reader reads.
local fake = require("support.fake_machine")
local fs = require("lunette.fs")
local loop = require("lunette.loop")

local real_proc = require("lunette.proc")
local base

-- The view on top of a fixture root; process 42 is a reachable .NET process of it.
local function view_on(root)
  local machine = fake.new { processes = { fake.process { pid = 42 } } }
  package.loaded["lunette.proc"].cgroup = real_proc.at(base .. "/" .. root).cgroup
  return machine:load("views.process.container")
end

local function signals_on(root, depth)
  local signals, extras = view_on(root).run(fake.ctx(), { processId = 42, depth = depth or "Detail" })
  return signals, extras
end

describe("views.process.container", function()
  setup(function()
    base = os.tmpname()
    os.remove(base)
    local source = fs.realpath(arg[0]):match("^(.*)/tests/lua/") or "."
    local made = assert(loop.exec { argv = { "/bin/sh", source .. "/tests/data/proc/make-fixtures.sh", base }, timeout_ms = 20000 })
    assert(made.code == 0, made.stderr)
  end)

  teardown(function() loop.exec { argv = { "/bin/rm", "-rf", base }, timeout_ms = 20000 } end)

  it("container on cgroup v2: cpu, memory, pressure, pids and oomScore filled from the files", function()
    local s = signals_on("v2")
    assert.same({ true, "V2", "/kubepods/pod1/app", 667 }, { s.inContainer, s.cgroupVersion, s.cgroupPath, s.oomScore })
    assert.same({
      usageUsec = 5000000, nrPeriods = 200, nrThrottled = 30, throttledUsec = 1500000, throttlePercent = 15, quotaCores = 0.5,
    }, s.cpu)
    assert.same({ currentBytes = 966367641, maxBytes = 1073741824, usageFraction = 0.9, oomKillCount = 1, maxHitCount = 7 }, s.memory)
    assert.same({ cpuSomeAvg10 = 12.5, memSomeAvg10 = 3.25, memFullAvg10 = 1.75, ioSomeAvg10 = 0.1, ioFullAvg10 = 0.05 }, s.pressure)
    assert.same({ current = 19, max = 100 }, s.pids)
    assert.equal(0, #s.notes)
    assert.equal(42, s.processId)
  end)

  it("container: quotaCores is null without a quota, and then throttlePercent too", function()
    local s = signals_on("none")
    assert.is_nil(s.cpu)
    local v = view_on("v2")
    local cpu = { usage_usec = 7, nr_periods = 0, nr_throttled = 0, throttled_usec = 0 }
    s = v.signals(1, { version = "V2", in_container = true, cpu = cpu })
    assert.is_nil(s.cpu.quotaCores)
    assert.is_nil(s.cpu.throttlePercent)
    assert.equal(7, s.cpu.usageUsec)
  end)

  it("a quota that no period has used yet is throttled in 0 % of them", function()
    local cpu = { usage_usec = 7, nr_periods = 0, nr_throttled = 0, throttled_usec = 0, quota_usec = 100000, period_usec = 100000 }
    local s = view_on("v2").signals(1, { version = "V2", in_container = true, cpu = cpu })
    assert.same({ 0.0, 1 }, { s.cpu.throttlePercent, s.cpu.quotaCores })
  end)

  it("container: a missing file becomes a note", function()
    local s = signals_on("v2-bare")
    assert.same({ true, "V2", 4096 }, { s.inContainer, s.cgroupVersion, s.memory.currentBytes })
    assert.is_nil(s.memory.maxBytes)
    assert.is_nil(s.memory.usageFraction)
    assert.is_nil(s.pressure)
    assert.is_nil(s.oomScore)
    local all = table.concat(s.notes, "\n")
    for _, file in ipairs { "cpu.stat", "cpu.max", "memory.max", "memory.events", "pids.current", "oom_score", "no pressure files" } do
      assert.is_truthy(all:find(file, 1, true), file)
    end
  end)

  it("cgroup v1 or none gives inContainer false, the right version and a note", function()
    local s = signals_on("v1")
    assert.same({ false, "V1" }, { s.inContainer, s.cgroupVersion })
    assert.matches("cgroup v1", s.notes[1])
    assert.equal(0.25, s.cpu.quotaCores)
    s = signals_on("none")
    assert.same({ false, "None" }, { s.inContainer, s.cgroupVersion })
    assert.matches("in no cgroup", s.notes[1])
    assert.is_nil(s.memory)
  end)

  it("container at depth Summary has no notes, the values stay; Detail has them", function()
    local summary, extras = signals_on("v2-bare", "Summary")
    assert.equal(0, #summary.notes)
    assert.equal(4096, summary.memory.currentBytes)
    assert.matches("notes at depth=Detail", extras.summary)
    assert.is_true(#signals_on("v2-bare", "Detail").notes > 0)
  end)

  it("container: throttling above 5 % hints collect_sample cpu, memory above 85 % of the limit inspect_heap live", function()
    local _, extras = signals_on("v2")
    assert.same({ "collect_sample", { kind = "cpu", durationSeconds = 10, processId = 42 } },
      { extras.hints[1].nextTool, extras.hints[1].suggestedArguments })
    local function hinted(group)
      local machine = fake.new { processes = { fake.process { pid = 42, cgroup = group } } }
      local _, more = machine:load("views.process.container").run(fake.ctx(), { processId = 42, depth = "Summary" })
      return more.hints[1].nextTool, more.hints[1].suggestedArguments
    end
    local cpu = { usage_usec = 1, nr_periods = 100, nr_throttled = 5, throttled_usec = 1, quota_usec = 1, period_usec = 1 }
    local memory = { current_bytes = 86, max_bytes = 100, usage_fraction = 0.86, oom_kills = 0, max_hits = 0 }
    assert.same({ "inspect_heap", { source = "live", topTypes = 25, processId = 42 } },
      { hinted { version = "V2", in_container = true, cpu = cpu, memory = memory, notes = {} } })
    memory.usage_fraction = 0.85
    assert.same({ "collect_events", { kind = "counters", durationSeconds = 5, processId = 42 } },
      { hinted { version = "V2", in_container = true, cpu = cpu, memory = memory, notes = {} } })
  end)
end)
