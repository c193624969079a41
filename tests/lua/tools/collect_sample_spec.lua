-- SPDX-License-Identifier: MIT
-- collect_sample through the framework: kinds, options of each kind and foreign ones, scopes, risk, what this build does not sample.
local args = require("lunette.args")
local collect_sample = require("tools.collect_sample")
local errors = require("lunette.errors")
local json = require("lunette.json")
local kit = require("support.framework_kit")
local oncpu = require("lunette.oncpu")
local process = require("lunette.process")
local sampled = require("support.sampled")
local schema = require("lunette.schema")

local STAND <const> = sampled.path("stand")
local FILTER <const> = { moduleName = "a.dll", typeName = "A.B", methodName = "C" }
local EVERYTHING <const> = { scopes = { "root", "sensitive-parameter-read" } }

local function refused(arguments, parameter, options)
  local envelope = sampled.call(arguments, options)
  assert.same({ "InvalidArgument", parameter }, { envelope.error and envelope.error.kind, envelope.error and envelope.error.detail })
  assert.is_nil(envelope.data)
  return envelope.error.message
end

local function params(more)
  local arguments = { kind = "method-params", includeSensitiveValues = true, methods = { FILTER } }
  for name, value in pairs(more or {}) do arguments[name] = value end
  return arguments
end

local function filters(n)
  local list = json.array({})
  for i = 1, n do list[i] = FILTER end
  return list
end

-- A process of a kind, in the place of a real one.
local function stand_in(runtime)
  local resolve = process.resolve
  process.resolve = function()
    return { pid = 4711, start_time = 1, digest = { processId = 4711, runtime = runtime, canSampleCpu = runtime == "CoreClr",
      canCollectGcDump = false } }
  end
  return setmetatable({}, { __close = function() process.resolve = resolve end })
end

-- The kernel says no: how often it was asked.
local function refusing(kind)
  local open = oncpu.open
  local asked = { n = 0, close = function() oncpu.open = open end }
  oncpu.open = function()
    asked.n = asked.n + 1
    return nil, errors.new(kind, "the kernel refuses the CPU clock", { hint = "sudo sysctl kernel.perf_event_paranoid=1" })
  end
  return asked
end

describe("collect_sample, common", function()
  it("`kind` absent is cpu", function()
    local data = sampled.call({ traceFilePath = STAND }).data
    local members = {}
    for name in pairs(data) do members[#members + 1] = name end
    table.sort(members)
    assert.same({ "cpu", "kind" }, members)
    assert.equal("cpu", data.kind)
  end)

  it("has the kind and exactly one payload in its data", function()
    for kind, recording in pairs { cpu = "stand", allocation = "sites" } do
      local _, envelope = sampled.capture(kind, recording)
      local members = {}
      for name in pairs(envelope.data) do members[#members + 1] = name end
      table.sort(members)
      assert.same(kind == "cpu" and { "cpu", "kind" } or { "allocation", "kind" }, members)
      assert.equal(kind, envelope.data.kind)
    end
  end)

  it("refuses another letter case and an unknown kind, with detail `kind` and the nearest", function()
    refused({ kind = "Cpu" }, "kind")
    assert.matches('Did you mean "off_cpu"', refused({ kind = "off-cpu" }, "kind"), 1, true)
  end)

  it("needs eventpipe for every kind", function()
    for _, kind in ipairs(collect_sample.branch_names) do
      local envelope, result = sampled.call(kind == "method-params" and params() or { kind = kind }, { scopes = { "read-counters" } })
      assert.same({ "PermissionDenied", "eventpipe", true }, { envelope.error.kind, envelope.error.detail, result.isError }, kind)
    end
  end)

  it("refuses a window of 0, and one above 300 outside a task, for every kind", function()
    for _, kind in ipairs(collect_sample.branch_names) do
      for _, seconds in ipairs { 0, 301 } do
        local arguments = kind == "method-params" and params() or { kind = kind }
        arguments.durationSeconds = seconds
        refused(arguments, "durationSeconds", EVERYTHING)
      end
    end
    assert.is_nil(sampled.call({ traceFilePath = STAND, durationSeconds = 3000 }, { in_task = true }).error)
  end)

  it("is a task with every kind, reports progress, and says what of its risk depends on the call", function()
    local def = collect_sample:definition()
    for _, kind in ipairs(collect_sample.branch_names) do assert.is_true(def.task({ kind = kind }), kind) end
    local meta = def.meta({ scopes = {} }).dotnetDiagnostics
    assert.same({ "critical", true }, { meta.safety.riskLevel, meta.hasConditionalSafety })
  end)

  it("has a default window of 10 s, 25 rows, and file and line", function()
    local bound = assert(args.bind(collect_sample.params, {}, "cpu")).args
    assert.same({ 10, 25, "Summary", true, "Automatic", false },
      { bound.durationSeconds, bound.topN, bound.depth, bound.resolveSourceLines, bound.cpuBackend, bound.exportTrace })
    assert.is_table(schema.input(collect_sample).properties.symbolPath)
  end)

  it("takes a process or a recording, not both, and not a recording for what is only live", function()
    refused({ traceFilePath = STAND, processId = 1 }, "traceFilePath")
    refused({ traceFilePath = STAND, exportTrace = true }, "exportTrace")
    refused({ traceFilePath = STAND, resolveMethodInstantiations = true }, "resolveMethodInstantiations")
    refused({ traceFilePath = STAND, cpuBackend = "Os" }, "cpuBackend")
    refused({ kind = "allocation", traceFilePath = "/nonexistent.nettrace" }, "traceFilePath")
    refused({ processId = -1 }, "processId")
  end)

  it("reads a recording of a client only below the artifact root", function()
    local ctx = sampled.ctx()
    ctx.transport = "http"
    local result = assert(collect_sample:handle(ctx, { traceFilePath = STAND }))
    assert.matches("InvalidArtifactPath", result.content[1].text, 1, true)
  end)
end)

describe("collect_sample, the processor", function()
  it("refuses what belongs to EventPipe with cpuBackend=Os, in any letter case", function()
    refused({ cpuBackend = "Os", exportTrace = true }, "exportTrace")
    refused({ cpuBackend = "os", resolveMethodInstantiations = true }, "resolveMethodInstantiations")
    refused({ cpuBackend = "Perf" }, "cpuBackend")
    refused({ topN = 0 }, "topN")
    refused({ maxResolvedSources = 0 }, "maxResolvedSources")
    refused({ depth = "Deep" }, "depth")
  end)

  it("asks before it samples from the kernel, and never takes EventPipe in its place", function()
    local _ <close>, asked <const> = stand_in("CoreClr"), refusing("PermissionDenied")
    local envelope = sampled.call({ cpuBackend = "Os", processId = 4711 })
    assert.equal("high", envelope.safety.riskLevel)
    assert.is_table(envelope.safetyApproval)
    assert.equal(0, asked.n)
    envelope = sampled.call(envelope.hints[1].suggestedArguments)
    assert.same({ "PermissionDenied", 1 }, { envelope.error.kind, asked.n })
    assert.matches("sysctl kernel.perf_event_paranoid", envelope.error.message, 1, true)
    assert.is_nil(envelope.data)
    assert.same({ "EventPipe", "preflight" }, -- which of them this spec's server has, goes first
      { envelope.hints[1].suggestedArguments.cpuBackend, envelope.hints[2].suggestedArguments.view })
    asked.close()
    envelope = sampled.call({ resolveMethodInstantiations = true })
    assert.same({ "NotSupported", "high" }, { envelope.error.kind, envelope.safety.riskLevel })
  end)

  it("is a moderate call with EventPipe, and says why", function()
    local envelope = sampled.call({ traceFilePath = STAND, cpuBackend = "EventPipe" })
    assert.equal("moderate", envelope.safety.riskLevel)
    assert.matches("stops all managed threads", envelope.safetyWarnings[1], 1, true)
  end)

  it("answers for NativeAOT by what was chosen", function()
    local _ <close> = stand_in("NativeAot")
    local envelope = sampled.call({ processId = 4711, cpuBackend = "EventPipe" })
    assert.same({ "UnsupportedRuntime", "NativeAot" }, { envelope.error.kind, envelope.error.detail })
    assert.equal("Os", envelope.hints[1].suggestedArguments.cpuBackend)
    local asked <const> = refusing("NotSupported")
    envelope = sampled.call({ processId = 4711 })
    asked.close()
    assert.same({ "NotSupported", 1, 1 }, { envelope.error.kind, asked.n, #envelope.hints })
  end)

  it("reads a map file of NativeAOT only below the artifact root, and before the kernel is asked", function()
    local _ <close> = stand_in("NativeAot")
    local asked <const> = refusing("NotSupported")
    for path, kind in pairs { ["/etc/hostname"] = "InvalidArtifactPath", ["../../etc/hostname"] = "InvalidArtifactPath",
      ["no-such.map.xml"] = "ArtifactNotFound" } do
      local envelope = kit.call(collect_sample, { processId = 4711, nativeAotMapFile = path }, kit.ctx())
      assert.same({ kind, "nativeAotMapFile" }, { envelope.error.kind, envelope.error.detail })
    end
    asked.close()
    assert.equal(0, asked.n)
  end)

  it("refuses a symbol server that is not allowed before anything is looked at, also for off_cpu", function()
    for _, kind in ipairs { "cpu", "off_cpu" } do
      local envelope = sampled.call({ kind = kind, symbolPath = "/srv/symbols;srv*/tmp/x*https://symbols.example.com/download" })
      assert.same({ "SymbolServerNotAllowed", "srv*/tmp/x*https://symbols.example.com/download" },
        { envelope.error.kind, envelope.error.detail })
      assert.matches("symbols-remote", envelope.error.message, 1, true)
    end
    assert.is_nil(sampled.call({ traceFilePath = STAND, symbolPath = "/srv/symbols;cache*/tmp/none" }).error)
    assert.is_nil(sampled.call({ traceFilePath = STAND, symbolPath = "srv*https://symbols.example.com/x", resolveSourceLines = false },
      { scopes = { "root", "symbols-remote" } }).error)
    assert.equal("SymbolServerNotAllowed", sampled.call({ symbolPath = "srv*https://symbols.example.com/x" }, { scopes = { "root", "*" } })
      .error.kind)
  end)
end)

describe("collect_sample, what this build does not sample", function()
  it("checks the options of the kernel's kinds before anything is opened", function()
    refused({ kind = "native-alloc", nativeAllocSamplePeriod = 0 }, "nativeAllocSamplePeriod")
    refused({ kind = "native-lock-contention", nativeLockContentionSamplePeriod = 0 }, "nativeLockContentionSamplePeriod")
    refused({ kind = "off_cpu", topN = 0 }, "topN")
  end)

  it("method-params needs both gates: the literal scope, which root does not bring, and what this build has not", function()
    local envelope, result = sampled.call(params())
    assert.same({ "PermissionDenied", "sensitive-parameter-read", true },
      { envelope.error.kind, envelope.error.detail, result.isError })
    envelope = sampled.call(params(), EVERYTHING)
    assert.equal("NotSupported", envelope.error.kind)
    assert.matches("AllowMethodParameterCapture", envelope.error.message, 1, true)
  end)

  it("method-params checks its own options", function()
    refused(params { includeSensitiveValues = false }, "includeSensitiveValues", EVERYTHING)
    refused(params { methods = json.array({}) }, "methods", EVERYTHING)
    refused(params { methods = filters(11) }, "methods", EVERYTHING)
    refused({ kind = "method-params", includeSensitiveValues = true }, "methods", EVERYTHING)
    refused(params { methods = { { moduleName = "a", typeName = "b" } } }, "methods", EVERYTHING)
    refused(params { maxEvents = 501 }, "maxEvents", EVERYTHING)
    refused(params { previewCount = 26 }, "previewCount", EVERYTHING)
    assert.equal("NotSupported", sampled.call(params { methods = filters(10), maxEvents = 500, previewCount = 25 }, EVERYTHING).error.kind)
  end)

  it("method-params refuses each of the eleven options of the others", function()
    local foreign = {
      topN = 5, depth = "Summary", symbolPath = "/x", resolveSourceLines = true, maxResolvedSources = 1, resolveMethodInstantiations = true,
      maxResolvedMethodInstantiations = 1, nativeAotMapFile = "/x", exportTrace = true, nativeAllocSamplePeriod = 1,
      nativeLockContentionSamplePeriod = 1,
    }
    local n = 0
    for name, value in pairs(foreign) do
      refused(params { [name] = value }, name, EVERYTHING)
      n = n + 1
    end
    assert.equal(11, n)
  end)

  it("the other kinds ignore options that are not theirs, whatever they hold", function()
    assert.is_nil(sampled.call({
      kind = "allocation", traceFilePath = sampled.path("sites"), depth = "nonsense", symbolPath = "srv*http://x/", maxEvents = -5,
    }).error)
    assert.equal("ProcessNotFound",
      sampled.call({ kind = "cpu-efficiency", topN = -1, methods = 3, processId = 2147483647 }).error.kind)
  end)

  it("keeps its errors classified when a process is not there", function()
    local resolve = process.resolve
    finally(function() process.resolve = resolve end)
    process.resolve = function(_, pid) return nil, errors.new("ProcessNotFound", ("There is no process %d here."):format(pid)) end
    assert.equal("ProcessNotFound", sampled.call({ processId = 77 }).error.kind)
    assert.equal("ProcessNotFound", sampled.call({ kind = "allocation", processId = 77 }).error.kind)
  end)
end)
