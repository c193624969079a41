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
local query_snapshot = require("tools.query_snapshot")
local sys = require("lunette.sys")
local together = require("signals.correlation_co_occurrence")
local tool = require("lunette.tool")
local view = require("lunette.view")

local DEMO <const> = sys.home .. "/tests/data/demo.nettrace"
local GC <const> = sys.home .. "/tests/data/recordings/gcs.nettrace"
local EXCEPTIONS <const> = sys.home .. "/tests/data/recordings/throw.nettrace"
local RECORDED <const> = { counters = DEMO, gc = GC, exceptions = EXCEPTIONS, threadpool = GC }

local QUIET <const> = sys.home .. "/tests/data/recordings/quiet.nettrace"

-- Of a test: errors by kind; what the kinds were asked; recordings and arguments that differ; what a kind does before it answers.
local saved, fail, asked, instead, before

local risks <const> = { gc = "high", logs = "moderate" }

-- collect_events with branches that answer from a recording, and remember what they were asked.
local function stand_in()
  local branches, words = {}, collect_events.branch_names
  for _, kind in ipairs(words) do
    branches[kind] = {
      risk = risks[kind] or "low", scopes = kind == "counters" and { "read-counters" } or { "eventpipe" }, data_field = kind,
      run = function(ctx, args)
        asked[kind] = args
        if before[kind] then before[kind](ctx) end
        if fail[kind] then return nil, fail[kind] end
        local given = { kind = kind, traceFilePath = RECORDED[kind] or DEMO, depth = args.depth }
        for name, value in pairs(instead[kind] or {}) do given[name] = value end
        local call = assert(collect_events:prepare(ctx, given, { authorised = true }))
        call.bound.args.meters = args.meters
        local data, extras = collect_events:perform(ctx, call)
        if kind == "startup" then extras.handle = nil end -- one that keeps nothing
        return data, extras
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
  saved, fail, asked, instead, before = { tools = app.tools, resolve = process.resolve }, {}, {}, {}, {}
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
  local envelope, result = kit.call(collect_batch, arguments, ctx or cli())
  if envelope.data then assert(kit.conforms(envelope, collect_batch)) end
  return envelope, result
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
    assert.same({ "counters", "low", "gc", "high" }, { envelope.childSafety[1].kind, envelope.childSafety[1].safety.riskLevel,
      envelope.childSafety[2].kind, envelope.childSafety[2].safety.riskLevel })
    assert.same({}, asked)
    envelope = batch(entries("counters", "logs"))
    assert.same({ "moderate", 2 }, { envelope.safety.riskLevel, #envelope.childSafety })
    assert.is_table(envelope.safetyWarnings)
    assert.equal("low", batch(entries("counters", "exceptions")).safety.riskLevel)
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

  it("are collected side by side: each begins before another has ended", function()
    local running, most = 0, 0
    local all_there = loop.now_ms() + 30000
    local function meet()
      running = running + 1
      most = math.max(most, running)
      while most < 3 and loop.now_ms() < all_there do loop.sleep_ms(2) end
      running = running - 1
    end
    before.counters, before.exceptions, before.threadpool = meet, meet, meet
    approved(entries("counters", "exceptions", "threadpool"))
    assert.equal(3, most)
  end)

  it("compact keeps the data of an entry that has no handle, or failed", function()
    fail.exceptions = errors.new("ProcessExited", "It ended.")
    local results = approved(entries("startup", "exceptions", "counters"), { depth = "compact" }).data.results
    assert.is_table(results[1].data)
    assert.is_nil(results[1].handle)
    assert.equal("ProcessExited", results[2].error.kind)
    assert.is_nil(results[3].data)
    assert.is_nil(results[1].summary:find("left to the handle", 1, true))
  end)

  it("takes includeHttpDestination for the activities, and for them alone", function()
    instead.activities = { traceFilePath = sys.home .. "/tests/data/recordings/spans.nettrace" }
    approved(entries("activities", "counters"), { includeHttpDestination = true })
    assert.same({ true, false }, { asked.activities.includeHttpDestination, asked.counters.includeHttpDestination })
    approved(entries("activities", "counters"))
    assert.is_false(asked.activities.includeHttpDestination)
  end)

  it("say how long a process was seen that ended in the window", function()
    assert.matches("^Process %d+: 2 of 2 entries collected over 10 s%.$", approved(entries("exceptions", "gc")).summary)
    local target = process.resolve()
    before.gc = function() target.start_time = 0 end -- as if another had its number by now
    assert.matches("^Process %d+: 2 of 2 entries collected over 0%.2 s of 10 s%. The process has ended%.$",
      approved(entries("exceptions", "gc")).summary)
    fail.exceptions, fail.gc = errors.new("ProcessExited", "It is gone."), errors.new("ProcessExited", "It is gone.")
    assert.matches("0 of 2 entries collected over 10 s; failed: exceptions, gc%. The process has ended%.$",
      approved(entries("exceptions", "gc")).summary)
  end)

  it("reports progress of one window, to the end, and none of its entries", function()
    local ctx = cli()
    before.counters = function(inner) inner:progress(50, 100, "of an entry") end
    batch(entries("counters"), nil, ctx)
    assert.equal(100, ctx.reported[#ctx.reported][1])
    for _, report in ipairs(ctx.reported) do assert.not_equal("of an entry", report[3]) end
    assert.is_nil(collect_batch:definition().task)
  end)

  it("have no digest and no evidence of native locks without the samplers that tell of them", function()
    local data = approved(entries("counters", "gc", "exceptions")).data
    assert.is_nil(data.investigationDigest or data.nativeContentionEvidence)
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

  it("counters and gc without a Gen2 collection: no counter of Gen2, and evidence that says 0", function()
    instead.gc = { traceFilePath = QUIET }
    local data = approved(entries("counters", "gc")).data
    for _, c in ipairs(data.results[1].data.counters) do
      for _, name in ipairs { "gen-2-size", "loh-size", "gc-fragmentation" } do assert.not_equal(name, c.name) end
    end
    assert.equal(0, data.gen2Evidence.gcCollectorWindowCount)
  end)

  it("count the Gen2 collections of the window past the cap on rows", function()
    local whole = approved(entries("counters", "gc")).data
    instead.gc = { maxEvents = 1, depth = "Detail" }
    local capped = approved(entries("counters", "gc")).data
    assert.equal(1, #capped.results[2].data.events)
    assert.is_true(whole.gen2Evidence.gcCollectorWindowCount > 1)
    assert.equal(whole.gen2Evidence.gcCollectorWindowCount, capped.gen2Evidence.gcCollectorWindowCount)
  end)

  it("have no evidence of Gen2 unless both counters and gc gave something", function()
    assert.is_nil(approved(entries("gc")).data.gen2Evidence)
    assert.is_nil(approved(entries("counters")).data.gen2Evidence)
    assert.is_nil(asked.counters.meters and next(asked.counters.meters))
    fail.gc = errors.new("ProcessExited", "It ended.")
    local data = approved(entries("counters", "gc")).data
    assert.is_nil(data.gen2Evidence)
    for _, c in ipairs(data.results[1].data.counters) do assert.not_equal("gen-2-size", c.name) end
  end)

  it("hints never lead to what the batch has collected", function()
    for _, hint in ipairs(approved(entries("counters", "gc", "exceptions")).hints) do
      assert.is_false(hint.nextTool == "collect_events" and (hint.suggestedArguments or {}).kind == "gc")
    end
  end)
end)

describe("sweep", function()
  lazy_setup(function()
    for _, name in ipairs { "counters/summary", "gc-events/summary", "exception-snapshot/summary", "threadpool-snapshot/summary" } do
      view.register(require("views." .. name:gsub("/", ".")))
    end
  end)

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

  it("sends nobody to a process that ended in the window", function()
    local function at_it(envelope)
      local n = 0
      for _, hint in ipairs(envelope.hints) do n = n + ((hint.suggestedArguments or {}).processId and 1 or 0) end
      return n
    end
    assert.is_true(at_it(sweep {}) > 0)
    local target = process.resolve()
    before.gc = function() target.start_time = 0 end
    local envelope = sweep {}
    assert.equal(0, at_it(envelope))
    assert.equal("byProvider", envelope.hints[#envelope.hints].suggestedArguments.view)
  end)

  it("has handles that can be asked further, and hints at the next step of what stands out", function()
    local envelope = sweep()
    local s = envelope.data.sweep
    for _, part in ipairs { "counters", "gc", "exceptions", "threadpool" } do
      local answer = kit.call(query_snapshot, { handle = s.handles[part] })
      assert.is_nil(answer.error, part)
      assert(kit.conforms(answer, nil, answer.data.kind, answer.data.view))
    end
    assert.is_true(#s.triage.observedSignals > 0)
    local step, given = s.triage.hypotheses[1].nextStep, nil -- what cannot be followed yet stands behind the others
    for _, hint in ipairs(envelope.hints) do given = given or hint.nextTool == step.nextTool and hint or nil end
    assert.same(step.suggestedArguments, given.suggestedArguments)
    local first = envelope.hints[1]
    assert.is_true(first == given or first.suggestedArguments.kind == "threadpool", first.reason)
    for _, hint in ipairs(envelope.hints) do -- a next step, never a verdict
      for _, word in ipairs { "caused by", "the cause is", "leak", "I/O" } do
        assert.is_nil(hint.reason:find(word, 1, true), hint.reason)
      end
    end
  end)

  it("lays the strongest signals of its parts together, as salient as the weakest", function()
    local envelope = sweep()
    local found, least
    for _, s in ipairs(envelope.signals) do
      if s.signal == "correlation.co-occurrence" then found = s end
    end
    assert.is_table(found)
    assert.is_true(#found.buckets >= 2)
    for _, bucket in ipairs(found.buckets) do
      least = math.min(least or 1, bucket.magnitude)
      assert.is_table(handles.get(bucket.handle))
    end
    assert.equal(least, found.salience)
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
