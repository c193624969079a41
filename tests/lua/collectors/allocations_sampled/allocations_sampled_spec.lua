-- SPDX-License-Identifier: MIT
-- allocations-sampled over a recording: 481 samples of a program that allocated known amounts (tests/data/recordings/README.md).
local asked = require("support.asked")
local collect_events = require("tools.collect_events")
local estimate = require("collectors.allocations_sampled.estimate")
local handles = require("lunette.handles")
local json = require("lunette.json")
local kit = require("support.framework_kit")
local probe = require("lunette.probe")
local process = require("lunette.process")
local sys = require("lunette.sys")

local ALLOC <const> = sys.home .. "/tests/data/recordings/alloc.nettrace"
local QUIET <const> = sys.home .. "/tests/data/recordings/quiet.nettrace"
-- What the thread allocated: bytes, objects.
local TRUTH <const> = {
  AllocateSmall = { 200000, 5000 }, AllocateArrays = { 5120000, 5000 }, AllocateLarge = { 100012000, 500 },
}

local function call(arguments)
  local ctx = kit.ctx()
  ctx.transport = "cli"
  arguments.kind = "allocations-sampled"
  local envelope = kit.call(collect_events, arguments, ctx)
  assert.is_nil(envelope.error)
  assert(kit.conforms(envelope, collect_events))
  return envelope.data.allocationsSampled, envelope
end

local function within(truth, e, what)
  assert.is_true(e.bytesLow <= truth[1] and truth[1] <= e.bytesHigh,
    ("%s: %d bytes not in %d..%d"):format(what, truth[1], e.bytesLow, e.bytesHigh))
  assert.is_true(e.objectsLow <= truth[2] and truth[2] <= e.objectsHigh,
    ("%s: %d objects not in %d..%d"):format(what, truth[2], e.objectsLow, e.objectsHigh))
end

local function site(data, name)
  for _, row in ipairs(data.bySite) do
    if row.method == "Lunette.Target.Allocations." .. name .. "()" then return row end
  end
  return nil
end

describe("collectors.allocations_sampled", function()
  it("estimates what each call site allocated, within its bounds", function()
    local data = call { traceFilePath = ALLOC, depth = "Detail" }
    for name, truth in pairs(TRUTH) do
      local row = assert(site(data, name), name)
      within(truth, row.estimate, name)
      assert.equal("lunette-target", row.module)
      assert.equal(name == "AllocateSmall" and "Lunette.Target.Small" or "System.Byte[]", row.topType)
      assert.equal(row.method, row.stack[1])
      assert.equal("Lunette.Target.Allocations.Do()", row.stack[2])
    end
    assert.same({ 426, 48, 3 }, { site(data, "AllocateLarge").estimate.samples, site(data, "AllocateArrays").estimate.samples,
      site(data, "AllocateSmall").estimate.samples })
  end)

  it("adds up by type, with large objects apart", function()
    local data = call { traceFilePath = ALLOC }
    local bytes, small = data.byType[1], data.byType[2]
    assert.same({ "System.Byte[]", "Lunette.Target.Small" }, { bytes.typeName, small.typeName })
    within({ 105132000, 5500 }, bytes.estimate, "byte[]")
    within(TRUTH.AllocateSmall, small.estimate, "Small")
    assert.equal(site(data, "AllocateLarge").estimate.bytes, bytes.largeObjectBytes)
    assert.is_nil(small.largeObjectBytes)
    assert.near(bytes.estimate.bytes / data.total.bytes, bytes.share, 0.0001)
  end)

  it("has a total of all samples, and says what the figures mean", function()
    local data = call { traceFilePath = ALLOC }
    assert.equal(481, data.total.samples)
    within({ 105332000, 10500 }, data.total, "all")
    assert.same({ 102400, 99, 542548 }, { data.samplingBytes, data.confidencePercent, data.unseenBelowBytes })
    assert.same({ 6, 7 }, { data.types, data.sites })
    assert.near(data.total.bytes / 0.179, data.total.bytesPerSecond, data.total.bytesPerSecond * 0.001)
  end)

  it("computes in the engine what the estimate computes", function()
    local program = probe.program {
      name = "one", events = { e = probe.RUNTIME .. "/AllocationSampled" },
      let = { w = ("1 / (1 - exp(ObjectSize * -%.20f))"):format(estimate.RATE) },
      keep = { rows = probe.first(500, { w = "w", size = "ObjectSize" }) },
    }
    local result = assert(probe.run(kit.ctx(), program, { path = ALLOC }))
    assert.equal(481, #result.rows.rows)
    for _, row in ipairs(result.rows.rows) do assert.near(estimate.weight(row.size), row.w, row.w * 1e-9) end
  end)

  it("answers in short without stacks, and keeps all behind the handle", function()
    local data, envelope = call { traceFilePath = ALLOC }
    assert.is_nil(data.bySite[1].stack)
    assert.is_true(#json.encode(envelope) <= 16384)
    assert.same({ "allocations.by-type", "allocations.by-site" }, { envelope.signals[1].signal, envelope.signals[2].signal })
    assert.same({ "query_snapshot", "bySite" }, { envelope.hints[1].nextTool, envelope.hints[1].suggestedArguments.view })
    local artifact = assert(handles.get(envelope.handle)).artifact
    assert.equal(7, #artifact.sites)
  end)

  it("has views by type and by call site, cut to topN", function()
    local _, envelope = call { traceFilePath = ALLOC }
    local artifact = assert(handles.get(envelope.handle)).artifact
    local by_type = asked.view("allocations-sampled-snapshot", artifact, "summary", { topN = 1 })
    assert.same({ 1, 6, "System.Byte[]", 481 }, { by_type.returned, by_type.types, by_type.byType[1].typeName, by_type.total.samples })
    local by_site = asked.view("allocations-sampled-snapshot", artifact, "bySite")
    assert.same({ 7, 7 }, { by_site.returned, by_site.sites })
    assert.equal("Lunette.Target.Work.Body()", by_site.bySite[1].stack[3])
  end)

  it("says of a recording without a sample what is missing", function()
    local data = call { traceFilePath = QUIET }
    assert.equal(0, data.total.samples)
    assert.equal(0, #data.byType)
    assert.matches("NoSamples: the recording holds no AllocationSampled event", table.concat(data.notes, "\n"))
  end)

  it("refuses older runtimes with what to use instead", function()
    local resolve = process.resolve
    finally(function() process.resolve = resolve end)
    for _, version in ipairs { "8.0.31", "9.0.2" } do
      process.resolve = function() return { pid = 4711, record = { runtimeVersion = version } } end
      local envelope = kit.call(collect_events, { kind = "allocations-sampled", processId = 4711 })
      assert.is_nil(envelope.data)
      assert.same({ "UnsupportedRuntime", version }, { envelope.error.kind, envelope.error.detail })
      assert.matches("collect_sample kind=allocation", envelope.error.message, 1, true)
      local hint = envelope.hints[1] -- what this version can run comes first
      assert.same({ "collect_events", "runtime-metrics", 4711 },
        { hint.nextTool, hint.suggestedArguments.kind, hint.suggestedArguments.processId })
      assert.same({ "collect_sample", "allocation" }, { envelope.hints[2].nextTool, envelope.hints[2].suggestedArguments.kind })
    end
  end)
end)
