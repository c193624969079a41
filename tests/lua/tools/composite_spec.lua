-- SPDX-License-Identifier: MIT
-- sweep and collect_batch: what is refused before anything opens, parts side by side, a part that fails, what only they tell. Their
-- collectors answer from recordings here.
local app = require("lunette.app")
local collect_batch = require("tools.collect_batch")
local collect_events = require("tools.collect_events")
local errors = require("lunette.errors")
local handles = require("lunette.handles")
local json = require("lunette.json")
local kit = require("support.framework_kit")
local loop = require("lunette.loop")
local proc = require("lunette.proc")
local process = require("lunette.process")
local sys = require("lunette.sys")
local together = require("signals.correlation_co_occurrence")
local tool = require("lunette.tool")

local DEMO <const> = sys.home .. "/tests/data/demo.nettrace"
local GC <const> = sys.home .. "/tests/data/recordings/gcs.nettrace"
local EXCEPTIONS <const> = sys.home .. "/tests/data/recordings/throw.nettrace"
local RECORDED <const> = { counters = DEMO, gc = GC, exceptions = EXCEPTIONS, threadpool = GC }

local saved, fail, asked

-- collect_events with branches that answer from a recording, and remember what they were asked.
local function stand_in()
  local branches, words = {}, collect_events.branch_names
  for _, kind in ipairs(words) do
    branches[kind] = {
      risk = kind == "gc" and "high" or "low", scopes = kind == "counters" and { "read-counters" } or { "eventpipe" }, data_field = kind,
      run = function(ctx, args)
        asked[kind] = args
        if fail[kind] then return nil, fail[kind] end
        local call = assert(collect_events:prepare(ctx, { kind = kind, traceFilePath = RECORDED[kind] or DEMO, depth = args.depth },
          { authorised = true }))
        call.bound.args.meters = args.meters
        return collect_events:perform(ctx, call)
      end,
    }
  end
  return tool {
    name = "collect_events", description = "x", scopes = { list = { "read-counters", "eventpipe" }, semantics = "any" },
    discriminator = "kind",
    params = {
      { "kind", "string", enum = words, default = "counters" }, tool.process_id(), { "durationSeconds", "int", default = 10 }, tool.depth(),
      { "includeHttpDestination", "bool", default = false },
      { "providerName", "string?", applies_to = { "event_source" }, required_for = { "event_source" } },
    },
    branches = branches,
  }
end

local function ourselves()
  local pid = assert(loop.exec { argv = { "sh", "-c", "echo $PPID" }, timeout_ms = 5000 }).stdout:match("%d+")
  pid = tonumber(pid)
  local digest = { processId = pid, autoResolved = true, runtime = "CoreClr", canSampleCpu = true, canCollectGcDump = true }
  return { pid = pid, start_time = assert(proc.stat(pid)).start_time, digest = digest }
end

before_each(function()
  saved, fail, asked = { tools = app.tools, resolve = process.resolve }, {}, {}
  app.tools = { collect_events = stand_in() }
  local target = ourselves()
  process.resolve = function(_, pid)
    if pid == 1 then return nil, errors.new("ProcessNotFound", "There is no process 1 here.") end
    return target
  end
end)

after_each(function()
  app.tools, process.resolve = saved.tools, saved.resolve
  handles.clear()
end)

local function entries(...)
  local list = {}
  for i, kind in ipairs({ ... }) do list[i] = { tool = "collect_events", kind = kind } end
  return list
end

local function cli(scopes)
  local ctx = kit.ctx(scopes and { scopes = scopes })
  ctx.transport = "cli" -- recordings may be read from anywhere
  return ctx
end

local function batch(requests, more, ctx)
  local arguments = { requests = requests }
  for name, value in pairs(more or {}) do arguments[name] = value end
  return kit.call(collect_batch, arguments, ctx or cli())
end

local function refused(requests, parameter, more)
  local envelope = batch(requests, more)
  assert.same({ "InvalidArgument", parameter }, { envelope.error and envelope.error.kind, envelope.error and envelope.error.detail })
  assert.same({}, asked)
  return envelope.error.message
end

describe("collect_batch, the request", function()
  it("takes one to four entries, each once", function()
    refused({}, "requests")
    refused(entries("counters", "exceptions", "jit", "threadpool", "contention"), "requests")
    assert.matches("twice", refused(entries("counters", "counters"), "requests"))
    refused({ json.null }, "requests")
    refused({ { tool = "collect_events" } }, "requests")
  end)

  it("refuses what cannot share a window, and says where to go", function()
    for _, kind in ipairs { "sweep", "distributed_trace", "replica_counters" } do refused(entries(kind), "requests") end
    assert.matches("approval", refused({ { tool = "collect_sample", kind = "method-params" } }, "requests"))
  end)

  it("suggests the nearest kind for a misspelt one", function()
    assert.matches("counters", refused(entries("counter"), "requests"))
    assert.matches("off_cpu", refused({ { tool = "collect_sample", kind = "offcpu" } }, "requests"))
  end)

  it("passes the rules of an entry on: event_source needs an option that a batch cannot give", function()
    local envelope = batch(entries("event_source"))
    assert.equal("InvalidArgument", envelope.error.kind)
    assert.matches("call it alone", envelope.error.message)
  end)

  it("wants an activities entry for includeHttpDestination", function()
    refused(entries("counters"), "includeHttpDestination", { includeHttpDestination = true })
  end)

  it("opens nothing when one entry is not authorised", function()
    local envelope, result = batch(entries("counters", "exceptions"), nil, cli { "read-counters" })
    assert.same({ "PermissionDenied", "eventpipe", true }, { envelope.error.kind, envelope.error.detail, result.isError })
    assert.same({}, asked)
  end)

  it("fails as a whole, without results, when the process is not there", function()
    local envelope = batch(entries("counters"), { processId = 1 })
    assert.equal("ProcessNotFound", envelope.error.kind)
    assert.is_nil(envelope.data)
    assert.same({}, asked)
  end)

  it("has the risk of its highest entry, and asks for it", function()
    local envelope = batch(entries("counters", "gc"))
    assert.equal("high", envelope.safety.riskLevel)
    assert.is_table(envelope.safetyApproval)
    assert.same({ "counters", "gc" }, { envelope.childSafety[1].kind, envelope.childSafety[2].kind })
    assert.same({}, asked)
  end)
end)

local function approved(requests, more)
  local envelope = batch(requests, more)
  if not envelope.safetyApproval then return envelope end
  more = more or {}
  more._dotnetDiagnostics = { acknowledgement = envelope.safetyApproval.requiredAcknowledgement }
  return (batch(requests, more))
end

describe("collect_batch, the results", function()
  it("stand in the order of the request, each with its handle, all over the shared window", function()
    local envelope = approved(entries("exceptions", "counters"), { durationSeconds = 3 })
    local results = envelope.data.results
    assert.same({ "exceptions", "counters" }, { results[1].kind, results[2].kind })
    assert.is_table(results[1].data.byType)
    for _, r in ipairs(results) do
      assert.is_table(handles.get(r.handle))
      assert.matches("^%d%d%d%d%-", r.handleExpiresAt)
    end
    assert.same({ 3, 3 }, { asked.exceptions.durationSeconds, asked.counters.durationSeconds })
    assert.is_nil(envelope.handle)
    assert.is_nil(envelope.data.gen2Evidence)
  end)

  it("keep a failure inside its entry", function()
    fail.exceptions = errors.new("ProcessExited", "It ended.")
    local envelope = approved { { tool = "collect_sample", kind = "cpu" }, entries("exceptions")[1], entries("counters")[1] }
    assert.is_nil(envelope.error)
    local results = envelope.data.results
    assert.same({ "NotSupported", "ProcessExited" }, { results[1].error.kind, results[2].error.kind })
    assert.is_nil(results[2].data or results[2].handle or results[3].error)
    assert.matches("1 of 3", envelope.summary)
    assert.matches("cpu, exceptions", envelope.summary)
  end)

  it("compact leaves data to the handle, with its size, and only where there is one", function()
    local full = approved(entries("counters")).data.results[1]
    local compact = approved(entries("counters"), { depth = "compact" }).data.results[1]
    assert.is_nil(compact.data)
    local bytes = tonumber(compact.summary:match("%((%d+) bytes%)"))
    -- the price of a window has more digits at one time than at another
    assert.is_true(math.abs(bytes - #json.encode(full.data)) < 64)
    assert.is_truthy(compact.summary:find(compact.handle, 1, true))
  end)

  it("full equals the standalone payload", function()
    local alone = kit.call(collect_events, { kind = "exceptions", traceFilePath = EXCEPTIONS }, cli())
    local entry = approved(entries("exceptions")).data.results[1]
    alone.data.exceptions.cost, entry.data.cost = nil, nil
    assert.same(alone.data.exceptions, entry.data)
  end)

  it("counters and gc: one instrument is asked for, Gen2 counters come when gc saw one, evidence keeps its sources apart", function()
    local envelope = approved(entries("counters", "gc"))
    assert.same({ "System.Runtime\\dotnet.gc.collections" }, asked.counters.meters)
    assert.equal(8, asked.counters.maxInstrumentTimeSeries)
    local counters, gc = envelope.data.results[1].data.counters, envelope.data.results[2].data
    local gen2
    for _, g in ipairs(gc.generations) do gen2 = g.generation == 2 and g.count or gen2 end
    assert.is_true(gen2 > 0, "the recording has Gen2 collections")
    local names = {}
    for _, c in ipairs(counters) do names[c.name] = true end
    assert.is_true(names["gen-2-size"] and names["loh-size"] and names["gc-fragmentation"])
    assert.is_true(#counters <= 18)
    local evidence = envelope.data.gen2Evidence
    assert.equal(gen2, evidence.gcCollectorWindowCount)
    assert.is_number(evidence.eventCounterIntervalDelta)
    assert.is_nil(evidence.meterRatePerSecond or evidence.meterProcessCumulative) -- the recording has no such Meter
    assert.is_true(evidence.gcCollectorWindowSeconds > 0)
  end)

  it("hints never lead to what the batch has collected", function()
    for _, hint in ipairs(approved(entries("counters", "gc", "exceptions")).hints) do
      assert.is_false(hint.nextTool == "collect_events" and (hint.suggestedArguments or {}).kind == "gc")
    end
  end)
end)

describe("sweep", function()
  local function sweep(more)
    local arguments = { kind = "sweep" }
    for name, value in pairs(more or {}) do arguments[name] = value end
    return kit.call(collect_events, arguments, cli())
  end

  it("runs at least 6 s and answers the triage, the five parts and four handles", function()
    local envelope = sweep { durationSeconds = 2 }
    local s = envelope.data.sweep
    assert.equal(6, asked.gc.durationSeconds)
    assert.equal(2, s.triage.modelVersion)
    for _, part in ipairs { "counters", "gc", "exceptions", "threadpool", "resource" } do assert.is_table(s[part], part) end
    for _, part in ipairs { "counters", "gc", "exceptions", "threadpool" } do
      assert.is_table(handles.get(s.handles[part]), part)
    end
    assert.same({}, s.failures)
    assert.is_nil(envelope.handle)
    assert.is_true(kit.conforms(envelope, collect_events))
    assert.is_true(#json.encode(envelope.data) <= 16384)
    assert.is_true(#envelope.hints > 0)
  end)

  it("isolates a failure, also that of the counters, which the triage then does without", function()
    fail.counters = errors.new("EndpointUnavailable", "It did not answer.")
    local envelope = sweep()
    local s = envelope.data.sweep
    assert.is_nil(envelope.error)
    assert.same({ { collector = "counters", error = { kind = "EndpointUnavailable", message = "It did not answer." } } }, s.failures)
    assert.is_nil(s.counters or s.handles.counters)
    assert.equal("inconclusive", s.triage.assessment)
    assert.is_table(s.gc)
    assert.matches("counters failed", envelope.summary)
    assert.is_true(kit.conforms(envelope, collect_events))
  end)

  it("fails when every collector did", function()
    for _, kind in ipairs { "counters", "gc", "exceptions", "threadpool" } do fail[kind] = errors.new("ProcessExited", "It ended.") end
    local envelope = sweep()
    assert.equal("ProcessExited", envelope.error.kind)
    assert.is_nil(envelope.data)
  end)

  it("needs the scope eventpipe, and no other", function()
    local envelope = kit.call(collect_events, { kind = "sweep" }, cli { "eventpipe" })
    assert.is_nil(envelope.error)
  end)
end)

describe("correlation.co-occurrence", function()
  local function of(id, salience) return { signal = id, salience = salience } end

  it("is silent with fewer than two contributors", function()
    assert.same({}, together.of {})
    assert.same({}, together.of { { collector = "gc", handle = "A", signals = { of("a", 0.5), of("b", 0.6) } },
      { collector = "counters", handle = "B", signals = {} } })
  end)

  it("names the strongest signal of each, and is as salient as the weakest of them", function()
    local list = together.of {
      { collector = "counters", handle = "A", signals = { of("counters.trend", 0.9) } },
      { collector = "gc", handle = "B", signals = { of("gc.gen2-share", 0.4), of("gc.loh-growth", 0.3) } },
    }
    assert.equal(1, #list)
    assert.equal(0.4, list[1].salience)
    assert.same({ { key = "counters.trend", magnitude = 0.9, unit = "salience", handle = "A" },
      { key = "gc.gen2-share", magnitude = 0.4, unit = "salience", handle = "B" } }, list[1].buckets)
    assert.equal("A", list[1].nextAction.suggestedArguments.handle)
  end)
end)

describe("the fan-outs over Pods", function()
  it("say that this server has no orchestrator", function()
    for kind, more in pairs { distributed_trace = { traceId = ("a"):rep(32) }, replica_counters = {} } do
      more.kind = kind
      local ctx = kit.ctx { scopes = { "root", "orchestrator-attach" } }
      assert.equal("OrchestratorDisabled", kit.call(collect_events, more, ctx).error.kind, kind)
    end
  end)
end)
