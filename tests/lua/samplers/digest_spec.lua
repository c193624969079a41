-- SPDX-License-Identifier: MIT
-- The first page of a batch with samples: lists of at most five, halves that stand for themselves; and samplers as entries of a batch.
local app = require("lunette.app")
local batch = require("collectors.batch")
local collect_batch = require("tools.collect_batch")
local collect_sample = require("tools.collect_sample")
local digest = require("collectors.batch.digest")
local errors = require("lunette.errors")
local handles = require("lunette.handles")
local json = require("lunette.json")
local kit = require("support.framework_kit")
local process = require("lunette.process")
local sampled = require("support.sampled")

local function result(kind, name)
  local envelope = select(2, sampled.capture(kind, name))
  return { data = envelope.data, extras = { handle = assert(handles.get(envelope.handle)) } }
end

describe("the digest of a batch", function()
  it("has both halves, of at most five rows", function()
    local found = digest.of(result("cpu", "stand"), result("allocation", "sites"))
    assert.same({ 5, 5, 4, 5 }, { #found.topCpuSelfTime, #found.topCpuWaitCategories, math.min(4, #found.topAllocationTypes),
      #found.topAllocationCallsites })
    assert.is_true(#found.topAllocationTypes <= 5)
    assert.same({ "Lunette.Target.Standing.Burn()", "Monitor.Wait" },
      { found.topCpuSelfTime[1].method, found.topCpuWaitCategories[1].waitReason })
    assert.same({ "System.Private.CoreLib!System.Threading.Thread.StartCallback()", 1 }, { found.hotPathLeaf, found.hotPathDepth })
    assert.same({ "System.String", "System.String.Ctor(wchar,int32)" },
      { found.topAllocationTypes[1].typeName, found.topAllocationCallsites[1].frame.method })
  end)

  it("has no half for what is not there, or failed; and is absent without both", function()
    local failed = { error = errors.new("ProcessExited", "gone") }
    local cpu = digest.of(result("cpu", "stand"), nil)
    assert.is_nil(cpu.topAllocationTypes)
    assert.is_nil(cpu.topAllocationCallsites)
    local allocation = digest.of(failed, result("allocation", "sites"))
    for _, member in ipairs { "topCpuSelfTime", "topCpuWaitCategories", "hotPathLeaf", "hotPathDepth" } do
      assert.is_nil(allocation[member], member)
    end
    assert.is_nil(digest.of(failed, failed))
    assert.is_nil(digest.of(nil, nil))
  end)
end)

describe("a batch of samplers", function()
  local saved

  before_each(function()
    saved = { tools = app.tools, resolve = process.resolve, prepare = collect_sample.prepare }
    app.tools = { collect_sample = collect_sample, collect_events = require("tools.collect_events") }
    process.resolve = function()
      local known = { processId = 4711, autoResolved = true, runtime = "CoreClr", canSampleCpu = true, canCollectGcDump = true }
      return { pid = 4711, start_time = 1, digest = known }
    end
    -- entries answer from recordings
    collect_sample.prepare = function(self, ctx, raw, options)
      local name = raw.kind == "cpu" and "stand" or raw.kind == "allocation" and "sites" or nil
      if not name then return saved.prepare(self, ctx, raw, options) end
      local call, err = saved.prepare(self, ctx, { kind = raw.kind, traceFilePath = sampled.path(name) }, options)
      if call then setmetatable(call.bound.args, { __newindex = function(t, k, v) if k ~= "processId" then rawset(t, k, v) end end }) end
      return call, err
    end
  end)
  after_each(function()
    app.tools, process.resolve, collect_sample.prepare = saved.tools, saved.resolve, saved.prepare
    handles.clear()
  end)

  local function ask(kinds, more)
    local arguments = { requests = json.array({}) }
    for i, kind in ipairs(kinds) do arguments.requests[i] = { tool = "collect_sample", kind = kind } end
    for name, value in pairs(more or {}) do arguments[name] = value end
    local envelope = kit.call(collect_batch, arguments, sampled.ctx())
    if envelope.data then assert(kit.conforms(envelope, collect_batch)) end
    return envelope
  end

  it("answers in the order of the request, as single calls do, with the digest", function()
    local report = ask({ "allocation", "cpu" }).data
    assert.same({ "allocation", "cpu" }, { report.results[1].kind, report.results[2].kind })
    assert.equal(sampled.capture("cpu", "stand").totalSamples, report.results[2].data.totalSamples)
    assert.is_table(report.investigationDigest.topCpuSelfTime)
    assert.is_table(report.investigationDigest.topAllocationTypes)
    assert.is_nil(report.nativeContentionEvidence)
    assert.is_nil(report.gen2Evidence)
  end)

  it("compact leaves the data to the handles, and the digest stays", function()
    local report = ask({ "cpu", "allocation" }, { depth = "compact" }).data
    for _, row in ipairs(report.results) do
      assert.is_nil(row.data)
      assert.matches(row.handle, row.summary, 1, true)
    end
    assert.is_table(report.investigationDigest.topCpuSelfTime)
  end)

  it("has the highest risk of its entries, each in childSafety, and asks for what needs it", function()
    local envelope = ask({ "cpu", "off_cpu" })
    assert.equal("high", envelope.safety.riskLevel)
    assert.is_table(envelope.safetyApproval)
    assert.same({ "cpu", "off_cpu" }, { envelope.childSafety[1].kind, envelope.childSafety[2].kind })
    envelope = ask({ "cpu", "cpu-efficiency" })
    assert.equal("moderate", envelope.safety.riskLevel)
    assert.same({ "ProcessNotFound", 2 }, { envelope.data.results[2].error.kind, #envelope.data.results }) -- that of the recording
    assert.is_table(envelope.data.investigationDigest)
  end)

  it("has no method-params, and no kind that is none", function()
    for _, kind in ipairs { "method-params", "sweep", "heap" } do
      local ok, err = batch.check { requests = { { tool = "collect_sample", kind = kind } } }
      assert.is_nil(ok)
      assert.same({ "InvalidArgument", "requests" }, { err.kind, err.detail })
    end
  end)
end)
