-- SPDX-License-Identifier: MIT
-- triggerWhen: predicates, the rules between its parameters, scopes and risk. What it does to a process is shown live.
local captures = require("lunette.captures")
local collect_events = require("tools.collect_events")
local kit = require("support.framework_kit")
local trigger = require("collectors.counters.trigger")

local function call(more, options)
  local arguments = { kind = "counters", triggerWhen = "cpu>85", captureKind = "cpu-sample", windowSeconds = 10 }
  for name, value in pairs(more) do arguments[name] = value end
  return kit.call(collect_events, arguments, kit.ctx(options))
end

local function refused(more, parameter)
  local envelope = call(more)
  assert.same({ "InvalidArgument", parameter }, { envelope.error and envelope.error.kind, envelope.error and envelope.error.detail })
  return envelope.error.message
end

describe("a predicate", function()
  it("is one of five metrics, one of four operators, and a number", function()
    local counters = {
      cpu = "cpu-usage", gcHeapMb = "gc-heap-size", rssMb = "working-set", threadCount = "threadpool-thread-count",
      activeTimerCount = "active-timer-count",
    }
    for metric, counter in pairs(counters) do
      local p = assert(trigger.parse(metric .. " >= 1.5"))
      assert.same({ counter, ">=", 1.5, metric .. ">=1.5" }, { p.counter, p.op, p.value, p.text })
    end
    local holds = {}
    for op in ("> >= < <="):gmatch("%S+") do
      local p = assert(trigger.parse("cpu" .. op .. "85"))
      holds[#holds + 1] = { p.holds(84), p.holds(85), p.holds(86) }
    end
    assert.same({ { false, false, true }, { false, true, true }, { true, false, false }, { true, true, false } }, holds)
  end)

  it("is refused otherwise, with what may stand there", function()
    for _, text in ipairs {
      "", "cpu", "cpu>", ">85", "cpu=85", "cpu==85", "cpu!=85", "cpu>85%", "cpu>nan", "cpu>inf", "cpu>0x10", "cpu>85 x", "cpu>8,5",
    } do
      assert.matches("cpu>85", refused({ triggerWhen = text }, "triggerWhen"))
    end
    assert.matches("gcHeapMb", refused({ triggerWhen = "gcHeapMB>5" }, "triggerWhen"))
  end)
end)

describe("a watch", function()
  after_each(function() for _, kind in ipairs { "cpu-sample", "heap", "dump" } do captures.forget(kind) end end)

  it("has bounds", function()
    refused({ windowSeconds = 0 }, "windowSeconds")
    refused({ windowSeconds = 301 }, "windowSeconds")
    refused({ maxCaptures = 0 }, "maxCaptures")
    refused({ maxCaptures = 11 }, "maxCaptures")
    refused({ sampleIntervalSeconds = 11 }, "sampleIntervalSeconds")
  end)

  it("writes no dump without confirmDump", function()
    refused({ captureKind = "dump" }, "confirmDump")
  end)

  it("says so before it begins when the capture cannot be taken in this build", function()
    local envelope = call {}
    assert.equal("NotSupported", envelope.error.kind)
    assert.matches("nothing is watched", envelope.error.message)
  end)

  it("asks for the scopes of its capture before anything opens", function()
    local wanted = { ["cpu-sample"] = "eventpipe", heap = "heap-read, ptrace", ["thread-snapshot"] = "ptrace", dump = "dump-write, ptrace" }
    for kind, scopes in pairs(wanted) do
      local envelope, result = call({ captureKind = kind, confirmDump = true }, { scopes = { "read-counters" } })
      assert.same({ "PermissionDenied", scopes, true }, { envelope.error.kind, envelope.error.detail, result.isError }, kind)
    end
  end)

  it("has the risk of its capture", function()
    for _, kind in ipairs { "heap", "dump" } do captures.announce(kind, { capture = function() error("never") end }) end
    local heap = call { captureKind = "heap" }
    assert.same({ "high", true }, { heap.safety.riskLevel, heap.safetyApproval ~= nil })
    local dump = call { captureKind = "dump", confirmDump = true }
    assert.same({ "critical", true }, { dump.safety.riskLevel, dump.safetyApproval ~= nil })
  end)
end)
