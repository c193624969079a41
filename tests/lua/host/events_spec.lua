-- SPDX-License-Identifier: MIT
--- lunette.events as scripts see it: a recorded file, and a replayed process. The source itself is tested in tests/native/probe.
local events = require("lunette.events")
local fs = require("lunette.fs")
local loop = require("lunette.loop")
local replay = require("support.replay")

local COUNTERS <const> = { { provider = "System.Runtime", event = "EventCounters" } }
local PROVIDERS <const> = { { name = "System.Runtime", args = "EventCounterIntervalSec=1" } }

local function take_all(source)
  local all = {}
  while true do
    local list, err = source:next(5000)
    if not list then
      assert.equal("NotFound", err.kind)
      return all
    end
    for _, e in ipairs(list) do all[#all + 1] = e end
  end
end

describe("events of a file", function()
  it("come in order, with their fields by name", function()
    local source <close> = assert(events.open{ path = replay.FILE, want = COUNTERS })
    local all = take_all(source)
    assert.equal(54, #all)
    local first = all[1]
    assert.equal("System.Runtime", first.provider)
    assert.equal("EventCounters", first.name)
    assert.equal(0, first.level) -- LogAlways: counters pass at any level
    assert.is_true(math.type(first.time_ns) == "integer" and first.unix_ns > first.time_ns)
    local payload = first.fields.Payload
    assert.equal("cpu-usage", payload.Name)
    assert.equal("CPU Usage", payload.DisplayName)
    assert.equal("Mean", payload.CounterType)
    assert.equal("Interval=1000", payload.Series)
    assert.equal("float", math.type(payload.Mean))
    assert.equal(1, payload.Count)
    for i = 2, #all do assert.is_true(all[i].time_ns >= all[i - 1].time_ns) end
  end)

  it("are counted whether they are wanted or not", function()
    local source <close> = assert(events.open{ path = replay.FILE, want = COUNTERS })
    take_all(source)
    local sum = assert(source:stop())
    assert.is_true(sum.complete)
    assert.is_nil(sum.incomplete_reason)
    assert.same({ 57, 10442, 0, 0 }, { sum.events, sum.bytes, sum.lost, sum.dropped })
    assert.same({ 8, 2 }, { sum.pointer_size, sum.processors })
    local by_name = {}
    for _, c in ipairs(sum.counts) do by_name[c.provider .. "/" .. c.event] = c.count end
    assert.same({ ["System.Runtime/EventCounters"] = 54, ["Microsoft-DotNETCore-EventPipe/ProcessInfo"] = 1,
                  ["Microsoft-Windows-DotNETRuntime/GC/FinalizersStart"] = 1,
                  ["Microsoft-Windows-DotNETRuntime/GC/FinalizersStop"] = 1 }, by_name)
  end)

  it("wait for a slow reader", function()
    local source <close> = assert(events.open{ path = replay.FILE, queue = 2 })
    loop.sleep_ms(20)
    assert.equal(57, #take_all(source))
    assert.equal(0, source:stop().dropped)
  end)

  it("are refused with the reason", function()
    assert.equal("NotFound", select(2, events.open{ path = "/nonexistent" }).kind)
    local source <close> = assert(events.open{ path = "LICENSE" })
    assert.same({}, take_all(source))
    local sum = source:stop()
    assert.is_false(sum.complete)
    assert.equal("MalformedInput", sum.incomplete_kind)
  end)

  it("need options that make sense", function()
    for _, bad in ipairs{
      {}, { pid = 1, path = "x" }, { pid = "x" }, { path = 7 }, { path = "x", want = { {} } }, { path = "x", queue = 0 },
      { pid = 1, providers = { { name = "P", level = 6 } } }, { pid = 1, providers = { { name = "P", keywords = "x" } } },
      { pid = 1, buffer_mb = 0 }, { pid = 1, names_for = "x" },
    } do
      assert.has_error(function() events.open(bad) end)
    end
  end)
end)

describe("events of a live session", function()
  it("come as they happen, and the end is asked for", function()
    local pid = replay.start("--speed", "4")
    local saved = "/tmp/lunette-spec-" .. loop.now_ns() .. ".nettrace"
    loop.on_cleanup(function() fs.remove(saved) end)
    local source <close> = assert(events.open{ pid = pid, providers = PROVIDERS, want = COUNTERS, save_to = saved })
    local list = assert(source:next(3000))
    assert.equal("EventCounters", list[1].name)
    assert.equal("Timeout", select(2, source:next(0)).kind)
    loop.sleep_ms(700)
    local sum = assert(source:stop(5000))
    assert.is_true(sum.complete)
    assert.same({ 57, 0, 0, 5 }, { sum.events, sum.lost, sum.dropped, sum.collect_version })
    assert.equal(pid, sum.pid)
    assert.equal(sum.bytes, sum.saved_bytes)
    assert.equal(sum.bytes, fs.stat(saved).size)
    assert.same(sum, source:stop())
    assert.equal(54, #list + #take_all(source))
  end)

  it("may serve the names of another session only: then they are counted, and none comes", function()
    local pid = replay.start("--speed", "4")
    local source <close> = assert(events.open{ pid = pid, providers = PROVIDERS, want = COUNTERS })
    local naming <close> = assert(events.open{ pid = pid, providers = PROVIDERS, names_for = source })
    assert(source:next(3000))
    local sum = assert(naming:stop(5000))
    assert.is_true(sum.complete)
    assert.equal("NotFound", select(2, naming:next(0)).kind)
    source:close()
    assert.has_error(function() events.open{ pid = pid, providers = PROVIDERS, names_for = source } end)
    local file <close> = assert(events.open{ path = replay.FILE, want = COUNTERS })
    assert.has_error(function() events.open{ path = replay.FILE, names_for = file } end)
  end)

  it("end with the task that opened them, in well under a second", function()
    local pid = replay.start()
    local source
    local task = loop.spawn(function()
      source = assert(events.open{ pid = pid, providers = PROVIDERS })
      source:next()
      source:next()
    end)
    loop.sleep_ms(300)
    local t0 = loop.now_ms()
    task:cancel("the client went away")
    task:await(20000)
    assert.is_true(loop.now_ms() - t0 < 5000)
    assert.equal("events source (closed)", tostring(source))
    assert.equal("NotFound", select(2, source:next()).kind)
    assert.equal("NotFound", select(2, source:stop()).kind)
  end)

  it("serve eight sessions on one target", function()
    local pid = replay.start("--speed", "10")
    local tasks = {}
    for i = 1, 8 do
      tasks[i] = loop.spawn(function()
        local source <close> = assert(events.open{ pid = pid, providers = PROVIDERS, want = COUNTERS })
        loop.sleep_ms(400)
        local sum = assert(source:stop())
        return #take_all(source), sum.complete
      end)
    end
    for i = 1, 8 do assert.same({ 54, true }, { tasks[i]:await(10000) }) end
  end)

  it("say why there is no session", function()
    assert.equal("ProcessNotFound", select(2, events.open{ pid = 2147483647, providers = PROVIDERS }).kind)
    assert.equal("NotADotnetProcess", select(2, events.open{ pid = require("lunette.sys").pid, providers = PROVIDERS }).kind)
    local pid = replay.start()
    assert.equal("InvalidArgument", select(2, events.open{ pid = pid, providers = {} }).kind)
    assert.equal("IoError", select(2, events.open{ pid = pid, providers = PROVIDERS, save_to = "/nonexistent/x" }).kind)
  end)
end)

describe("events.sql", function()
  it("takes values and comments out of a statement, and is short", function()
    assert.equal("SELECT a FROM t WHERE b = <redacted:literal>", events.sql("SELECT a  FROM t WHERE b = 'x''y' -- z"))
    assert.equal("", events.sql(""))
    assert.equal("<redacted:literal>", events.sql("'open"))
    assert.equal(4000, #events.sql(("a,"):rep(9000)))
    assert.is_false(pcall(events.sql, nil))
  end)
end)
