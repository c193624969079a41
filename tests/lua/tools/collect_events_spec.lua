-- SPDX-License-Identifier: MIT
-- collect_events through the framework: arguments, scopes, depth, hints, signal, handle; the counters of a recorded session.
local args = require("lunette.args")
local crypto = require("lunette.crypto")
local fs = require("lunette.fs")
local handles = require("lunette.handles")
local json = require("lunette.json")
local kit = require("support.framework_kit")
local loop = require("lunette.loop")
local schema = require("lunette.schema")
local sys = require("lunette.sys")
local validate = require("lunette.validate")
local collect_events = require("tools.collect_events")

local DEMO <const> = sys.home .. "/tests/data/demo.nettrace"
local HOSTING <const> = "Microsoft.AspNetCore.Hosting"
local OTHER_KINDS <const> = {
  "activities", "logs", "db",
  "kestrel", "networking", "requests",
}

local function call(arguments, options)
  local ctx = kit.ctx(options)
  ctx.transport = options and options.transport or "cli"
  local envelope, result = kit.call(collect_events, arguments, ctx)
  if envelope.data then
    assert(schema.load_records(sys.home .. "/schemas/records.json"))
    local ok, faults = validate.check(envelope, schema.output(collect_events))
    assert.is_true(ok, ok and "" or table.concat(faults, "; "))
  end
  return envelope, result, ctx
end

local function demo(more, options)
  local arguments = { traceFilePath = DEMO }
  for name, value in pairs(more or {}) do arguments[name] = value end
  return call(arguments, options)
end

local function refused(arguments, parameter, options)
  local envelope = call(arguments, options)
  assert.same({ "InvalidArgument", parameter }, { envelope.error and envelope.error.kind, envelope.error and envelope.error.detail })
  assert.is_nil(envelope.data)
  return envelope
end

local function row(rows, provider, name)
  for _, r in ipairs(rows) do
    if r.provider == provider and r.name == name then return r end
  end
  return nil
end

describe("collect_events, common", function()
  it("`kind` absent is counters", function()
    local data = demo().data
    assert.equal("counters", data.kind)
    assert.is_table(data.counters)
  end)

  it("data has kind and exactly one payload member", function()
    local members = {}
    for name in pairs(demo().data) do members[#members + 1] = name end
    table.sort(members)
    assert.same({ "counters", "kind" }, members)
  end)

  it("refuses another letter case and an unknown kind, with detail `kind` and the nearest", function()
    refused({ kind = "Counters" }, "kind")
    local envelope = refused({ kind = "counter" }, "kind")
    assert.matches("counters", envelope.error.message)
    assert.matches("replica_counters", envelope.error.message)
  end)

  it("lets a bearer with only read-counters have counters and no other local kind", function()
    assert.is_nil(demo({}, { scopes = { "read-counters" } }).error)
    for _, kind in ipairs(OTHER_KINDS) do
      local arguments = kind == "event_source" and { kind = kind, providerName = "x" } or { kind = kind }
      local envelope, result = call(arguments, { scopes = { "read-counters" } })
      assert.same({ "PermissionDenied", "eventpipe", true }, { envelope.error.kind, envelope.error.detail, result.isError }, kind)
    end
  end)

  it("lets a bearer with only eventpipe have every local kind but counters", function()
    local envelope, result = demo({}, { scopes = { "eventpipe" } })
    assert.same({ "PermissionDenied", "read-counters", true }, { envelope.error.kind, envelope.error.detail, result.isError })
    for _, kind in ipairs(OTHER_KINDS) do
      local answer = call({ kind = kind, processId = 999999999 }, { scopes = { "eventpipe" } })
      assert.not_equal("PermissionDenied", answer.error.kind, kind)
    end
  end)

  it("asks the fan-out kinds for orchestrator-attach too", function()
    local trace = { kind = "distributed_trace", traceId = ("a"):rep(32) }
    assert.equal("orchestrator-attach", call(trace, { scopes = { "eventpipe" } }).error.detail)
    assert.equal("orchestrator-attach", call({ kind = "replica_counters" }, { scopes = { "read-counters" } }).error.detail)
  end)

  it("refuses a window of 0, and one above 300 outside a task", function()
    refused({ durationSeconds = 0 }, "durationSeconds")
    refused({ durationSeconds = 301 }, "durationSeconds")
    refused({ kind = "gc", durationSeconds = 0 }, "durationSeconds")
    assert.is_nil(demo({ durationSeconds = 3000 }, { in_task = true }).error)
  end)

  it("refuses a recording for the sweep, which would look at a live process instead", function()
    local envelope = kit.call(collect_events, { kind = "sweep", traceFilePath = "x.nettrace" })
    assert.same({ "InvalidArgument", "traceFilePath" }, { envelope.error.kind, envelope.error.detail })
    assert.matches("not to sweep", envelope.error.message, 1, true)
  end)

  it("has a window of 5 s for counters, 15 s for datas, 6 s for sweep, and 10 s for the others, as its schema says", function()
    local function window(kind, given)
      return assert(args.bind(collect_events.params, { kind = kind, durationSeconds = given }, kind)).args.durationSeconds
    end
    assert.same({ 5, 15, 6 }, { window("counters"), window("datas"), window("sweep") })
    assert.same({ 10, 10, 10 }, { window("exceptions"), window("gc"), window("logs") })
    assert.equal(6, window("sweep", 2))
    local shown = schema.input(collect_events).properties.durationSeconds
    assert.is_nil(shown.default)
    assert.matches("counters 5, datas 15, sweep 6, others 10", shown.description, 1, true)
  end)

  it("takes depth in any letter case, Summary when absent, and Raw for Detail", function()
    local summary, detail = demo().data, demo({ depth = "detail" }).data
    assert.is_true(#summary.counters.counters < #detail.counters.counters)
    assert.same(detail.counters.counters, demo({ depth = "RAW" }).data.counters.counters)
    refused({ depth = "all" }, "depth")
  end)

  it("stays below 16 KB at Summary", function()
    assert.is_true(#json.encode(demo({ meters = { HOSTING } })) <= 16384)
  end)

  it("returns a handle with both expiry members, behind which everything is", function()
    local envelope = demo()
    assert.is_true(envelope.handleExpiresInSeconds > 590 and envelope.handleExpiresInSeconds <= 600)
    assert.is_string(envelope.handleExpiresAt)
    local entry = assert(handles.get(envelope.handle))
    assert.equal("counters", entry.kind)
    assert.equal("trace", entry.origin)
    assert.is_true(#entry.artifact.counters > #envelope.data.counters.counters)
  end)

  it("reports 100 at the end", function()
    local _, _, ctx = demo()
    assert.equal(100, ctx.reported[#ctx.reported][1])
  end)
end)

describe("collect_events counters", function()
  it("reads a recorded session: counters, processors, times", function()
    local c = demo({ depth = "Detail" }).data.counters
    assert.equal(41, #c.counters)
    assert.equal(2, c.processorCount)
    assert.same({ 87, "Mean" }, { row(c.counters, "System.Runtime", "threadpool-queue-length").value,
      row(c.counters, "System.Runtime", "threadpool-queue-length").kind })
    assert.equal(25, row(c.counters, "System.Runtime", "threadpool-thread-count").value)
    local alloc = row(c.counters, "System.Runtime", "alloc-rate")
    assert.same({ "Sum", "B" }, { alloc.kind, alloc.unit })
    assert.is_nil(row(c.counters, "System.Runtime", "threadpool-queue-length").unit)
    assert.matches("^00:00:15%.%d+$", c.duration)
    assert.matches("^2026%-11%-30T07:49:%d%d%.%d+Z$", c.startedAt)
  end)

  it("gives the three default providers for providers=null, none for []", function()
    local seen = {}
    for _, r in ipairs(demo({ depth = "Detail" }).data.counters.counters) do seen[r.provider] = true end
    assert.same({ ["System.Runtime"] = true, [HOSTING] = true, ["Microsoft-AspNetCore-Server-Kestrel"] = true }, seen)
    assert.equal(0, #demo({ depth = "Detail", providers = {} }).data.counters.counters)
    local one = demo({ depth = "Detail", providers = { HOSTING } }).data.counters.counters
    for _, r in ipairs(one) do assert.equal(HOSTING, r.provider) end
    assert.equal(4, #one)
  end)

  it("gives no Meter series for meters=null or [], and those asked for with their members", function()
    assert.equal(0, #demo({ depth = "Detail" }).data.counters.meters)
    assert.equal(0, #demo({ depth = "Detail", meters = {} }).data.counters.meters)
    local series = demo({ depth = "Detail", meters = { HOSTING } }).data.counters.meters
    assert.equal(2, #series)
    local active = series[1]
    assert.same({ HOSTING, "http.server.active_requests", "UpDownCounter" }, { active.meter, active.instrument, active.kind })
    assert.is_number(active.lastValue)
    local h = series[2]
    assert.same({ "http.server.request.duration", "Histogram", "s", "GET" },
      { h.instrument, h.kind, h.unit, h.tags["http.request.method"] })
    assert.is_true(h.histogram.p50 <= h.histogram.p95 and h.histogram.p95 <= h.histogram.p99 and h.histogram.p50 > 0.59)
    assert.is_true(h.histogram.count > 0 and h.histogram.sum / h.histogram.count > 0.59)
    assert.is_nil(h.lastValue)
  end)

  it("keeps only headline counters and the request duration at Summary", function()
    local c = demo({ meters = { HOSTING } }).data.counters
    assert.equal(15, #c.counters)
    assert.is_table(row(c.counters, "System.Runtime", "cpu-usage"))
    assert.is_table(row(c.counters, HOSTING, "requests-per-second"))
    assert.is_nil(row(c.counters, "System.Runtime", "gen-0-size"))
    assert.equal(1, #c.meters)
    assert.equal("http.server.request.duration", c.meters[1].instrument)
    assert.equal(2, c.processorCount)
  end)

  it("caps the series and says so", function()
    local c = demo({ depth = "Detail", meters = { HOSTING }, maxInstrumentTimeSeries = 1 }).data.counters
    assert.equal(1, #c.meters)
    assert.equal("TimeSeriesLimitReached: capped at 1 series.", c.notes[1])
  end)

  it("hints at the backlog first, calls little CPU with a queue inconclusive, never I/O, and ends with byProvider", function()
    local envelope = demo()
    local list = envelope.hints
    assert.same({ "collect_events", "threadpool" }, { list[1].nextTool, list[1].suggestedArguments.kind })
    local threads, by_provider -- what this version cannot follow stands behind the others
    for _, hint in ipairs(list) do
      if hint.nextTool == "collect_thread_snapshot" then threads = hint end
      if hint.nextTool == "query_snapshot" then by_provider = hint end
    end
    assert.matches("inconclusive", threads.reason)
    assert.same({ "byProvider", envelope.handle }, { by_provider.suggestedArguments.view, by_provider.suggestedArguments.handle })
    assert.is_nil(json.encode(envelope):find("I/O", 1, true))
  end)

  it("names the counter that moved most", function()
    local s = demo().signals[1]
    assert.equal("counters.trend", s.signal)
    assert.is_true(s.salience >= 0.5 and s.salience <= 1)
    assert.is_true(#s.buckets >= 1 and #s.buckets <= 5)
    assert.equal("relative change", s.buckets[1].unit)
  end)

  it("refuses names that cannot be passed on, in either list", function()
    refused({ traceFilePath = DEMO, providers = { 'a"b' } }, "providers")
    refused({ traceFilePath = DEMO, meters = { "a;b" } }, "meters")
    refused({ traceFilePath = DEMO, meters = { ("x"):rep(300) } }, "meters")
    refused({ intervalSeconds = 0 }, "intervalSeconds")
    refused({ maxInstrumentTimeSeries = 0 }, "maxInstrumentTimeSeries")
    refused({ processId = -1 }, "processId")
  end)

  it("refuses a file and a process together", function()
    local envelope = call { traceFilePath = DEMO, processId = 42 }
    assert.equal("InvalidArgument", envelope.error.kind)
  end)

  it("asks triggerWhen for its companions, checks them, then says that it is not built", function()
    refused({ triggerWhen = "cpu>85", captureKind = "heap" }, "windowSeconds")
    refused({ triggerWhen = "cpu>85", windowSeconds = 10 }, "captureKind")
    for parameter, value in pairs({ windowSeconds = 301, maxCaptures = 11, captureKind = "film" }) do
      local arguments = { triggerWhen = "cpu>85", captureKind = "heap", windowSeconds = 10 }
      arguments[parameter] = value
      refused(arguments, parameter)
    end
    local envelope = call { triggerWhen = "cpu>85", captureKind = "heap", windowSeconds = 10 }
    assert.equal("NotSupported", envelope.error.kind)
    assert.matches("captureKind=heap cannot be taken", envelope.error.message)
  end)

  it("asks for the scopes of captureKind before anything starts", function()
    local arguments = { triggerWhen = "cpu>85", captureKind = "heap", windowSeconds = 10 }
    local envelope = call(arguments, { scopes = { "read-counters" } })
    assert.same({ "PermissionDenied", "heap-read, ptrace" }, { envelope.error.kind, envelope.error.detail })
  end)
end)

describe("collect_events traceFilePath", function()
  local root

  local function below_root(name, body)
    root = root or ("/tmp/lunette-spec-" .. crypto.hex(crypto.random(6)))
    assert(fs.mkdirs(root))
    if body then assert(fs.write_private(root .. "/" .. name, body)) end
    require("lunette.config").use(require("lunette.config").load { environ = { MCP_ARTIFACT_ROOT = root } })
  end

  after_each(function()
    require("lunette.config").use(nil)
    if root then assert(loop.exec { argv = { "rm", "-rf", root }, timeout_ms = 5000 }) end
    root = nil
  end)

  it("reads below the artifact root for a client", function()
    below_root("demo.nettrace", assert(fs.read(DEMO, 1 << 20)))
    local envelope = call({ traceFilePath = "demo.nettrace" }, { transport = "http" })
    assert.is_nil(envelope.error)
    assert.equal(15, #envelope.data.counters.counters)
    assert.is_nil(envelope.resolvedProcess)
  end)

  it("refuses a client what is absolute, goes up, or leaves the root through a link", function()
    below_root()
    assert(loop.exec { argv = { "ln", "-s", DEMO, root .. "/link.nettrace" }, timeout_ms = 5000 })
    for _, path in ipairs { DEMO, "../demo.nettrace", "a/../../x", "link.nettrace" } do
      local envelope = call({ traceFilePath = path }, { transport = "http" })
      assert.same({ "InvalidArtifactPath", "traceFilePath" }, { envelope.error.kind, envelope.error.detail }, path)
    end
    assert.equal("ArtifactNotFound", call({ traceFilePath = "none.nettrace" }, { transport = "http" }).error.kind)
  end)

  it("names a file that is not there, or is no trace", function()
    assert.equal("InvalidArgument", call({ traceFilePath = "/nonexistent.nettrace" }).error.kind)
    assert.equal("InvalidArgument", call({ traceFilePath = sys.home .. "/LICENSE" }).error.kind)
    local folder = call({ traceFilePath = sys.home }).error
    assert.same({ "InvalidArgument", "traceFilePath" }, { folder.kind, folder.detail })
    assert.matches("^A recorded trace is a plain file, and .+ is none%.$", folder.message)
  end)

  it("keeps what came before the cut of a file that was cut", function()
    below_root("cut.nettrace", assert(fs.read(DEMO, 1 << 20)):sub(1, 120000))
    local c = call({ traceFilePath = root .. "/cut.nettrace", depth = "Detail" }).data.counters
    assert.equal(41, #c.counters)
    assert.matches("Incomplete", table.concat(c.notes, " "))
  end)
end)
