-- SPDX-License-Identifier: MIT
-- allocation over a recording of a program that allocated known bytes of known types at known sites (tests/data/recordings/README.md):
-- 100,325,456 bytes, half of them strings, a quarter orders, 15 % int[], a tenth large byte[].
local fs = require("lunette.fs")
local handles = require("lunette.handles")
local json = require("lunette.json")
local process = require("lunette.process")
local sampled = require("support.sampled")
local signal = require("lunette.signal")

local BYTES <const> = 100325456
local SHARES <const> = { ["System.String"] = 0.5, Order = 0.252, ["System.Int32[]"] = 0.15, ["System.Byte[]"] = 0.1 }
local SITES <const> = {
  ["System.String.Ctor(wchar,int32)"] = 0.5, ["Lunette.Target.Sites.MakeOrders()"] = 0.252, ["Lunette.Target.Sites.MakeNumbers()"] = 0.15,
  ["Lunette.Target.Sites.MakeBlob()"] = 0.1,
}
local POINTS <const> = 0.03 -- 904 ticks know a share of a half to about 2 points

local function named(rows, name)
  for _, row in ipairs(rows) do
    if (row.typeName or row.frame.method) == name then return row end
  end
  return nil
end

local function falling(rows, field)
  for i = 2, #rows do assert.is_true(rows[i][field] <= rows[i - 1][field], field) end
end

describe("samplers.allocation", function()
  it("knows how much was allocated, and of what, as the program does", function()
    local data, envelope = sampled.capture("allocation", "sites")
    assert.near(BYTES, data.totalBytes, 0.02 * BYTES) -- the session's own allocations are in it
    for name, share in pairs(SHARES) do
      local row = assert(named(data.topByBytes, name), name)
      assert.near(share, row.totalBytes / data.totalBytes, POINTS, name)
      assert.equal(name == "System.Byte[]" and "Large" or "Small", row.dominantKind)
    end
    local blobs = named(data.topBySite, "Lunette.Target.Sites.MakeBlob()")
    assert.same({ 50, 10001200 }, { blobs.eventCount, blobs.totalBytes }) -- large objects are told one by one
    assert.matches("Most: System.String", envelope.summary, 1, true)
    assert.same({}, data.notes)
    local events = 0
    for _, row in ipairs(data.topByBytes) do events = events + row.eventCount end
    assert.equal(data.totalEvents, events)
  end)

  it("takes the random samples of .NET 10 when asked, and no ticks then", function()
    local data, envelope = sampled.capture("allocation", "alloc", { sampled = true })
    assert.equal(481, data.totalEvents)
    assert.near(105332000, data.totalBytes, 0.1 * 105332000) -- 481 samples know it to about 5 %
    assert.near(100012000, named(data.topBySite, "Lunette.Target.Allocations.AllocateLarge()").totalBytes, 0.1 * 100012000)
    assert.equal("Large", named(data.topByBytes, "System.Byte[]").dominantKind)
    assert.matches("^Sampled: ", data.notes[1])
    assert.matches("(481 samples)", envelope.summary, 1, true)
    data = sampled.capture("allocation", "alloc")
    assert.equal(0, data.totalEvents)
    assert.matches("^NoTicks: ", data.notes[1])
    data = sampled.capture("allocation", "sites", { sampled = true })
    assert.equal(0, data.totalEvents)
    assert.matches("^NoSamples: ", data.notes[1])
  end)

  it("takes no random samples of an older runtime", function()
    local runtimes = require("collectors.allocations_sampled.runtimes")
    local err = runtimes.unsupported { pid = 7, record = { runtimeVersion = "9.0.4" } }
    assert.equal("UnsupportedRuntime", err.kind)
    assert.equal(nil, runtimes.unsupported { pid = 7, record = { runtimeVersion = "10.0.1" } })
  end)

  it("ranks by bytes, by ticks and by site", function()
    local data = sampled.capture("allocation", "sites")
    falling(data.topByBytes, "totalBytes")
    falling(data.topByCount, "eventCount")
    falling(data.topBySite, "totalBytes")
    for name, share in pairs(SITES) do
      local row = assert(named(data.topBySite, name), name)
      assert.near(share, row.totalBytes / data.totalBytes, POINTS, name)
      assert.equal(0x06, row.identity.metadataToken >> 24)
    end
    local blob = named(data.topBySite, "Lunette.Target.Sites.MakeBlob()")
    assert.same({ "Lunette.Target.Sites", "MakeBlob", "lunette-target" },
      { blob.identity.typeFullName, blob.identity.methodName, blob.frame.module })
  end)

  it("answers topN rows a list within 16 KB, and the handle has all", function()
    local data, _, artifact = sampled.capture("allocation", "sites", { topN = 2 })
    assert.same({ 2, 2, 2 }, { #data.topByBytes, #data.topByCount, #data.topBySite })
    assert.is_true(#artifact.types > 4 and #artifact.sites > 4)
    local envelope = select(2, sampled.capture("allocation", "sites"))
    assert.is_true(#json.encode(envelope) <= 16 * 1024)
  end)

  it("has the signals by type and by site, and says where to go on", function()
    local _, envelope = sampled.capture("allocation", "sites")
    local by_id = {}
    for _, s in ipairs(envelope.signals) do by_id[s.signal] = s end
    local of_type, of_site = by_id["allocations.by-type"], by_id["allocations.by-site"]
    assert.same({ "System.String", "bytes", "top-methods" },
      { of_type.buckets[1].key, of_type.buckets[1].unit, of_type.nextAction.suggestedArguments.view })
    assert.same({ "System.String.Ctor(wchar,int32)", "call-tree" },
      { of_site.buckets[1].key, of_site.nextAction.suggestedArguments.view })
    assert.near(0.5, of_type.salience, POINTS)
    local steps = {}
    for i, hint in ipairs(envelope.hints) do
      steps[i] = hint.nextTool .. "/" .. (hint.suggestedArguments.view or hint.suggestedArguments.kind)
    end
    assert.same({ "query_snapshot/call-tree", "collect_sample/cpu", "collect_events/gc" }, steps)
  end)

  it("has no signal of what has no name, or of few ticks", function()
    local artifact = {
      types = { { type = "<unknown>", bytes = 900 }, { type = "A", bytes = 100 } }, sites = {}, info = { bytes = 1000, samples = 100 },
    }
    assert.same({}, signal.of_capture("allocation-sample", artifact, "H"))
    artifact.types[2].bytes = 400
    local signals = signal.of_capture("allocation-sample", artifact, "H")
    assert.same({ 1, "allocations.by-type", "A" }, { #signals, signals[1].signal, signals[1].buckets[1].key }) -- none by site: no stacks
    artifact.info.samples = 19
    assert.same({}, signal.of_capture("allocation-sample", artifact, "H"))
  end)

  it("says of a recording that stops in the middle that what is missing may have come later", function()
    local path = os.tmpname()
    finally(function() os.remove(path) end)
    local function notes_of_first(bytes, name, kind)
      assert(fs.write_private(path, assert(fs.read(sampled.path(name), 1 << 20)):sub(1, bytes)))
      return table.concat(sampled.call({ kind = kind, traceFilePath = path }).data[kind].notes, "\n")
    end
    local notes = notes_of_first(18000, "quiet", "allocation")
    assert.matches("NamesMissing: the recording stops before all names of its methods were told", notes, 1, true)
    assert.matches("NoSamples: no stack sample came before the recording stops.", notes_of_first(2500, "alloc", "cpu"), 1, true)
    assert.matches("NoTicks: no allocation tick came before the recording stops.", notes_of_first(2500, "alloc", "allocation"), 1, true)
  end)

  it("says of a recording without ticks, or with few of them, what that means", function()
    local data, envelope = sampled.capture("allocation", "stand")
    assert.same({ 0, 0 }, { data.totalEvents, #data.topByBytes })
    assert.is_nil(data.topBySite)
    assert.matches("NoTicks: the recording has no GC/AllocationTick", data.notes[1], 1, true)
    assert.matches("The recording: no allocation tick in %d+%.%d s%.$", envelope.summary) -- nothing is said of what was allocated
    assert.is_nil(envelope.signals)
    data = sampled.capture("allocation", "quiet")
    assert.equal(6, data.totalEvents)
    assert.matches("FewTicks", table.concat(data.notes, "\n"), 1, true)
  end)

  it("says of a program without names where to look instead", function()
    local allocation = require("samplers.allocation")
    local capture = require("samplers.capture")
    local run, resolve = capture.run, process.resolve
    finally(function() capture.run, process.resolve = run, resolve end)
    process.resolve = function() return { pid = 4711, start_time = 1, digest = { processId = 4711, runtime = "NativeAot" } } end
    function capture.run()
      local info = { samples = 40, bytes = 4e6, running = 0, waiting = 0, unknown = 40 }
      local types = { { type = "<unknown>", events = 40, bytes = 4000000, kinds = { Small = 40, Large = 0, Pinned = 0 } } }
      return {
        profile = { types = function() return types end, top_methods = function() return {} end }, info = info, modules = {}, notes = {},
        duration_ms = 1000, process_id = 4711, started_unix_ms = 0,
      }
    end
    local data, extras = allocation.run(sampled.ctx(), { processId = 4711 })
    assert.matches('collect_sample(kind="cpu")', extras.summary, 1, true)
    assert.same({ "<unknown>", 1 }, { data.topByBytes[1].typeName, #data.topByBytes })
    assert.is_nil(data.topBySite)
    assert.matches("NoNames", data.notes[1], 1, true)
    assert.same({}, extras.signals)
    handles.clear()
  end)

  it("has the views of samples, with bytes beside ticks, and no evidence of threads", function()
    local _, envelope = sampled.capture("allocation", "sites")
    local tree = sampled.ask(envelope.handle, "call-tree")
    assert.is_nil(tree.evidence)
    assert.near(BYTES, tree.root.inclusiveBytes, 0.02 * BYTES)
    local top = sampled.ask(envelope.handle, "top-methods", { rankBy = "bytes" })
    assert.equal("bytes", top.rankBy)
    falling(top.methods, "exclusiveBytes")
    assert.same({ 0, 0, top.methods[1].exclusiveSamples }, { top.methods[1].selfSamples.runningSamples,
      top.methods[1].selfSamples.waitingSamples, top.methods[1].selfSamples.unknownSamples })
    falling(sampled.ask(envelope.handle, "top-methods", { rankBy = "inclusive_bytes" }).methods, "inclusiveBytes")
    for _, name in ipairs { "by-module", "by-namespace", "hot-path" } do sampled.ask(envelope.handle, name) end
    assert.equal("Lunette.Target.Sites.Round(int32)", sampled.ask(envelope.handle, "caller-callee",
      { rootMethodFilter = "Sites.Count" }).callers[1].method)
    local triage, asked = sampled.ask(envelope.handle, "triage")
    assert.same({ "unclassified", 0 }, { triage.verdict, #triage.waitCategories })
    assert.matches("no CPU samples", asked.summary, 1, true)
  end)
end)
