-- SPDX-License-Identifier: MIT
-- inspect_heap over a recorded snapshot and the same as a .gcdump file (tests/data/heap/README.md): totals, chains, retained sizes.
local fs = require("lunette.fs")
local handles = require("lunette.handles")
local json = require("lunette.json")
local kit = require("support.framework_kit")
local resources = require("lunette.resources")
local sys = require("lunette.sys")
local view = require("lunette.view")

local inspect_heap = require("tools.inspect_heap")
local query = require("tools.query_snapshot")

local DATA <const> = sys.home .. "/tests/data/heap/"
local OBJECTS <const>, BYTES <const> = 708, 117508
local ALL <const> = { "root", "sensitive-heap-read" }

local function ctx(scopes)
  local c = kit.ctx { scopes = scopes or ALL }
  c.transport = "cli"
  return c
end

local function open(file, more)
  local arguments = { source = "dump", dumpFilePath = DATA .. file }
  for k, v in pairs(more or {}) do arguments[k] = v end
  return kit.call(inspect_heap, arguments, ctx())
end

local function ask(handle, name, more)
  if not view.find("heap-snapshot", name) then
    view.register(assert(loadfile(("%s/lua/views/heap-snapshot/%s.lua"):format(sys.home, name)))())
  end
  local arguments = { handle = handle, view = name }
  for k, v in pairs(more or {}) do arguments[k] = v end
  local envelope = kit.call(query, arguments, ctx())
  if not envelope.error then assert(kit.conforms(envelope, nil, "heap-snapshot", name)) end
  return envelope
end

local function row_of(rows, name)
  for _, row in ipairs(rows) do
    if row.typeFullName == name then return row end
  end
  error("no row of " .. name)
end

local function names_of(chain)
  local list = {}
  for i, frame in ipairs(chain) do list[i] = frame.typeFullName end
  return list
end

local CHAIN <const> = {
  "System.Collections.Generic.Dictionary<System.String,Lunette.Target.CustomerSession>",
  "Entry<System.String,Lunette.Target.CustomerSession>[]", "Lunette.Target.CustomerSession",
  "System.Collections.Generic.List<Lunette.Target.Customer>", "Lunette.Target.Customer[]", "Lunette.Target.Customer",
}

describe("inspect_heap", function()
  after_each(function() handles.clear() end)

  for _, file in ipairs { "leak.nettrace", "leak.gcdump" } do
    describe("of " .. file, function()
      local envelope
      before_each(function() envelope = open(file) end)

      it("counts what dotnet-gcdump counts", function()
        local data = envelope.data
        assert.same({ "gcdump", OBJECTS, BYTES }, { data.source, data.heap.objectCount, data.heap.totalBytes })
        local rows = ask(envelope.handle, "top-types", { topN = 200 }).data.topTypes
        for name, wanted in pairs {
          ["Lunette.Target.Customer"] = { 100, 3200 }, ["Lunette.Target.CustomerSession"] = { 10, 240 },
          ["Lunette.Target.Subscriber"] = { 10, 240 }, ["Lunette.Target.Publisher"] = { 1, 24 }, ["System.EventHandler"] = { 11, 704 },
          ["System.Byte[]"] = { 102, 32144 }, ["System.String"] = { 281, 45892 },
        } do
          local row = row_of(rows, name)
          assert.same(wanted, { row.instanceCount, row.totalBytes }, name)
        end
        local count, bytes = 0, 0
        for _, row in ipairs(rows) do count, bytes = count + row.instanceCount, bytes + row.totalBytes end
        assert.same({ OBJECTS, BYTES }, { count, bytes })
        assert.equal("lunette-memory.dll", row_of(rows, "Lunette.Target.Customer").moduleName)
      end)

      it("explains the leak by its chain", function()
        local paths = ask(envelope.handle, "retention-paths", { typeFullName = "Target.Customer" }).data.retentionPaths
        for _, path in ipairs(paths) do
          if path.targetTypeFullName == "Lunette.Target.Customer" then
            assert.same(CHAIN, names_of(path.chain))
            assert.equal("StaticVar", path.chain[1].rootKind)
            assert.matches("%.Instance$", path.chain[1].rootName)
            assert.is_false(path.truncated)
            return
          end
        end
        error("no path to a Customer")
      end)

      it("says what would go with it", function()
        local retained = ask(envelope.handle, "retained", { topN = 200 }).data.retained
        assert.equal(BYTES, retained.reachableBytes + retained.unreachableBytes)
        local rows = retained.byType
        -- each a Customer (32), its name (a string of 12 characters: 46) and photo (280)
        assert.equal(100 * 32 + 100 * 46 + 100 * 280, row_of(rows, "Lunette.Target.Customer").retainedBytes)
        assert.equal(240, row_of(rows, "Lunette.Target.Subscriber").retainedBytes)
        local one = ask(envelope.handle, "retained", { typeFullName = "CustomerSession", topN = 3 }).data.retained
        assert.equal(one.byType[1].typeFullName, one.together.typeFullName)
        assert.is_true(one.together.retainedBytes >= one.byType[1].retainedBytes)
        assert.equal(CHAIN[1], retained.objects[1].typeFullName)
        -- the dictionary with its two arrays and 10 keys; 10 sessions, lists and arrays; 100 customers with name and photo
        assert.equal(3 + 10 + 30 + 300, retained.objects[1].retainedObjects)
        local below = ask(envelope.handle, "dominators", { address = retained.objects[1].objectAddress }).data.dominators
        assert.equal(retained.objects[1].retainedBytes, below.retainedBytes)
        assert.equal(CHAIN[2], below.children[1].typeFullName)
        assert.is_nil(below.tree)
        local tree = ask(envelope.handle, "dominators").data.dominators.tree
        local at = tree
        for i = 1, 3 do
          at = row_of(at.children, CHAIN[i])
          assert.is_true(at.retainedBytes <= tree.retainedBytes)
        end
        assert.equal(10, at.objectCount)
      end)

      it("knows the way to one object and all that can be reached from it", function()
        local paths = ask(envelope.handle, "retention-paths", { typeFullName = "Subscriber" }).data.retentionPaths
        local address = paths[1].targetObjectAddress
        local root = ask(envelope.handle, "gcroot", { address = address }).data
        assert.equal(address, root.address)
        assert.same({ "Lunette.Target.Publisher", "System.EventHandler", "System.Object[]", "System.EventHandler",
          "Lunette.Target.Subscriber" }, names_of(root.gcRoot.chain))
        local size = ask(envelope.handle, "objsize", { address = root.gcRoot.chain[1].objectAddress }).data.objectSize
        -- the publisher, its handler and list, 10 handlers, 10 subscribers
        assert.same({ 23, false }, { size.objectCount, size.truncated })
        local wrong = ask(envelope.handle, "gcroot", { address = "0x10" })
        assert.equal("InvalidArgument", wrong.error.kind)
      end)

      it("counts roots by kind", function()
        local rows = ask(envelope.handle, "roots-by-kind").data.rootsByKind
        local by_kind = {}
        for _, row in ipairs(rows) do by_kind[row.rootKind] = row.rootCount end
        assert.same({ Stack = 19, FinalizerQueue = 1, StrongHandle = 11, PinnedHandle = 1, StaticVar = 63 }, by_kind)
      end)

      it("has its metadata as a resource", function()
        local registry = require("lunette.registry").new()
        resources.register(registry, sys.home)
        local uri = "heap-snapshot://" .. envelope.handle
        local template, vars = registry.match_template(uri)
        local read = assert(template.read(kit.ctx(), uri, vars))
        local body = assert(json.decode(read.contents[1].text))
        assert.same({ "gcdump", BYTES }, { body.origin, body.heap.totalBytes })
        assert.is_true(#body.topTypesByBytes > 90)
      end)
    end)
  end

  it("has no total before the end of its progress, which is 100", function()
    local c, told = ctx(), {}
    c.progress = function(_, progress, total) told[#told + 1] = { progress, total } end
    assert.is_nil(kit.call(inspect_heap, { source = "dump", dumpFilePath = DATA .. "leak.nettrace" }, c).error)
    assert.same({ 100, 100 }, table.remove(told))
    for _, one in ipairs(told) do assert.is_nil(one[2]) end
  end)

  it("tells the quality of a recording, and what was projected", function()
    local quality = open("leak.nettrace", { topTypes = 3 }).data.quality
    assert.same({ timedOut = false, readerFailed = false, gcStopObserved = true, streamCompleted = true, missingTypeNames = 0,
      topNProjected = true }, quality)
    assert.is_false(open("leak.nettrace", { topTypes = 200 }).data.quality.topNProjected)
  end)

  it("says that a capture broke off where one reads first, and what it counted", function()
    local whole, path, told = assert(fs.read(DATA .. "leak.nettrace", 10000000)), os.tmpname(), 0
    finally(function() os.remove(path) end)
    for part = 3, 9 do
      local file = assert(io.open(path, "wb"))
      file:write(whole:sub(1, #whole * part // 10))
      file:close()
      local envelope = kit.call(inspect_heap, { source = "dump", dumpFilePath = path }, ctx())
      if envelope.data and not envelope.data.quality.gcStopObserved then
        told = told + 1
        assert.matches("The capture broke off: these are lower bounds.", envelope.summary, 1, true)
        assert.matches("Incomplete", envelope.data.warnings[1])
      end
    end
    assert.is_true(told > 0)
    assert.is_nil(open("leak.nettrace").summary:find("broke off", 1, true))
  end)

  it("bounds both lists by topTypes, and keeps the rest", function()
    local envelope = open("leak.nettrace", { topTypes = 4 })
    assert.same({ 4, 4 }, { #envelope.data.topTypesByBytes, #envelope.data.topTypesByInstances })
    assert.is_true(#ask(envelope.handle, "top-types", { topN = 100 }).data.topTypes == 100)
    assert.equal("instances", ask(envelope.handle, "top-types", { rankBy = "instances" }).data.rankBy)
  end)

  it("gives chains no longer than asked, with the root at their beginning", function()
    local data = open("leak.gcdump", { includeRetentionPaths = true, retentionPathLimit = 3 }).data
    local cut = 0
    for _, path in ipairs(data.retentionPaths) do
      assert.is_true(#path.chain <= 3 and path.truncated == (path.length > 3))
      assert.is_string(path.chain[1].rootKind)
      assert.equal(path.targetObjectAddress, path.chain[#path.chain].objectAddress)
      cut = cut + (path.truncated and 1 or 0)
    end
    assert.is_true(cut > 0)
    assert.is_nil(open("leak.gcdump").data.retentionPaths)
  end)

  it("answers what a gcdump cannot with its quality, never with zeros", function()
    local handle = open("leak.gcdump").handle
    for _, name in ipairs { "finalizer-queue", "fragmentation", "static-fields", "delegate-targets", "duplicate-strings", "gchandles",
      "timers", "alc", "async" } do
      local envelope = ask(handle, name)
      assert.same({ "ViewUnavailableForGcDump", name }, { envelope.error.kind, envelope.error.detail })
      assert.is_table(envelope.data.quality, name)
    end
    local object = kit.call(query, { handle = handle, view = "object", address = "0x10" }, ctx())
    assert.is_table(object.safetyApproval) -- it would re-open its origin
  end)

  it("compares two heaps", function()
    local before, after = open("leak.gcdump").handle, open("leak.nettrace").handle
    local diff = ask(after, "diff", { baselineHandle = before }).data
    assert.same({ "no_change", 0, 0, 0 }, { diff.verdict, diff.totalAdded, diff.totalRemoved, diff.totalChanged })
    local growth = ask(after, "growth", { baselineHandle = before }).data.growth
    assert.same({ "stable", 0 }, { growth.verdict, growth.totalGrowers })
    assert.equal("InvalidArgument", ask(after, "growth", { baselineHandle = after }).error.kind)
    local journey = ask(after, "diff", { comparisonHandles = { before } })
    assert.is_nil(journey.error)
  end)

  it("draws a page of what keeps what, without anything from elsewhere", function()
    local export = require("heap.export")
    local entry = handles.get(open("leak.gcdump").handle)
    local page = assert(export.content(entry))
    assert.is_nil(page:find("https?://"))
    local body = page:match('id="data">(.-)</script>')
    assert.is_nil(body:find("<", 1, true))
    local data = assert(json.decode(body))
    assert.equal(110162, data.total)
    local sum = 0
    for i = 2, #data.o do
      sum = sum + data.o[i]
      assert.is_true(data.p[i] < i - 1 and data.v[i] <= data.v[data.p[i] + 1])
    end
    assert.is_true(sum > 0.97 * data.total and sum <= data.total) -- what is too small to be seen is left out
    assert.same({ "all", CHAIN[1] }, { "all", data.names[data.n[2] + 1] })
  end)

  it("is exported as heapmap, and as nothing else", function()
    local export_profile = require("tools.export_profile")
    local handle = open("leak.gcdump").handle
    local wrong = kit.call(export_profile, { handle = handle, format = "folded" }, ctx())
    assert.same({ "InvalidArgument", "format" }, { wrong.error.kind, wrong.error.detail })
  end)

  it("says which argument is wrong", function()
    local function detail(arguments) return kit.call(inspect_heap, arguments, ctx()).error.detail end
    assert.equal("source", detail {})
    assert.equal("source", detail { source = "gdump" })
    assert.equal("dumpFilePath", detail { source = "dump" })
    assert.equal("processId", detail { source = "dump", dumpFilePath = DATA .. "leak.gcdump", processId = 1 })
    assert.equal("dumpFilePath", detail { source = "live", dumpFilePath = DATA .. "leak.gcdump" })
    assert.equal("dumpFilePath", detail { source = "dump", dumpFilePath = DATA .. "none.gcdump" })
    assert.equal("exportTrace", detail { source = "gcdump", dumpFilePath = DATA .. "leak.gcdump", exportTrace = true })
    assert.equal("dumpFilePath", detail { source = "gcdump", dumpFilePath = DATA .. "README.md" })
  end)

  it("forks nothing unless it is configured", function()
    local function call(arguments) return kit.call(inspect_heap, arguments, ctx()).error end
    local err = call { source = "live", processId = 1, freeze = "fork" }
    assert.equal("NotSupported", err.kind)
    assert.matches("Diagnostics__AllowProcessFork", err.message, 1, true)
    err = call { source = "live", freeze = "melt" }
    assert.same({ "InvalidArgument", "freeze" }, { err.kind, err.detail })
    err = call { source = "dump", dumpFilePath = DATA .. "leak.gcdump", freeze = "fork" }
    assert.same({ "InvalidArgument", "freeze" }, { err.kind, err.detail })
  end)

  it("asks for another acknowledgement for a fork than for a copy", function()
    local config = require("lunette.config")
    local before = config.current()
    config.use(config.load { environ = { Diagnostics__AllowProcessFork = "true" } })
    local copy = kit.call(inspect_heap, { source = "live", processId = 1 }, ctx()).safetyApproval
    local fork = kit.call(inspect_heap, { source = "live", processId = 1, freeze = "fork" }, ctx()).safetyApproval
    config.use(before)
    assert.not_same(copy.requiredAcknowledgement.descriptor, fork.requiredAcknowledgement.descriptor)
    assert.equal("high", fork.requiredAcknowledgement.descriptor.riskLevel)
    assert.matches("clone", fork.requiredAcknowledgement.descriptor.reason)
  end)

  it("wants heap-read for all, and ptrace for a live walk", function()
    local function missing(arguments, scopes)
      local err = kit.call(inspect_heap, arguments, ctx(scopes)).error
      return err and err.kind == "PermissionDenied" and err.detail or nil
    end
    assert.equal("heap-read", missing({ source = "gcdump" }, { "ptrace" }))
    assert.equal("ptrace", missing({ source = "live" }, { "heap-read" }))
    assert.is_nil(missing({ source = "dump", dumpFilePath = DATA .. "leak.gcdump" }, { "heap-read" }))
  end)

  it("asks for an acknowledgement before the target is burdened", function()
    local preview = kit.call(inspect_heap, { source = "gcdump", processId = 1 }, ctx())
    assert.is_table(preview.safetyApproval.requiredAcknowledgement)
    assert.equal("high", preview.safety.riskLevel)
  end)

  it("refuses a file that is broken, at every length", function()
    local whole, path = assert(fs.read(DATA .. "leak.gcdump", 1000000)), os.tmpname()
    for cut = 24, #whole - 200, 997 do
      local file = assert(io.open(path, "wb"))
      file:write(whole:sub(1, cut))
      file:close()
      local envelope = kit.call(inspect_heap, { source = "dump", dumpFilePath = path }, ctx())
      assert.same({ "InvalidArgument", "dumpFilePath" }, { envelope.error.kind, envelope.error.detail }, tostring(cut))
    end
    os.remove(path)
  end)
end)
