-- SPDX-License-Identifier: MIT
-- What a walk of a heap makes of its worker's answer: the result of a made-up worker, with the graph of a recorded heap, becomes a handle
-- and the views that only a walk can answer. Values in it are for those with flag and scope.
local graph = require("lunette.graph")
local handles = require("lunette.handles")
local heap = require("lunette.heap")
local json = require("lunette.json")
local kit = require("support.framework_kit")
local sys = require("lunette.sys")
local view = require("lunette.view")
local walk = require("heap.walk")
local worker = require("lunette.worker")

local inspect_heap = require("tools.inspect_heap")
local query = require("tools.query_snapshot")
local walked = require("support.walked_heap")

local HIDDEN <const>, SECRET <const> = "<redacted:metadata-only>", "<redacted:sensitive>"
local BOTH <const> = { "root", "sensitive-heap-read" }
local FILE <const> = sys.home .. "/tests/data/heap/README.md" -- stands for a core dump: the made-up worker does not open it

-- As errors of native modules are.
local function failed(kind, message) return { kind = kind, message = message } end

local function ctx(scopes)
  local c = kit.ctx { scopes = scopes or { "root" } }
  c.transport = "cli"
  return c
end

local function ask(handle, name, more, scopes)
  if not view.find("heap-snapshot", name) then
    view.register(assert(loadfile(("%s/lua/views/heap-snapshot/%s.lua"):format(sys.home, name)))())
  end
  local arguments = { handle = handle, view = name }
  for k, v in pairs(more or {}) do arguments[k] = v end
  local envelope = kit.call(query, arguments, ctx(scopes))
  if envelope.safetyApproval and not envelope.data then
    arguments._dotnetDiagnostics = { acknowledgement = envelope.safetyApproval.requiredAcknowledgement }
    envelope = kit.call(query, arguments, ctx(scopes))
  end
  if not envelope.error then assert(kit.conforms(envelope, nil, "heap-snapshot", name)) end
  return envelope
end

describe("a walked heap #unit", function()
  local real = { run = worker.run, json = worker.json, details = heap.details, fd = heap.fd, open = graph.open }
  local sent, replies, details, object -- what the worker was asked; errors before it answers; its answers

  before_each(function()
    sent, replies, details = {}, {}, walked.details()
    worker.run = function(_, job, args, options)
      sent[#sent + 1] = { job = job, args = args, options = options }
      local err = table.remove(replies, 1)
      if err then return nil, err end
      return setmetatable({}, { __close = function() sent.closed = true end })
    end
    worker.json = function(_, job, args)
      sent[#sent + 1] = { job = job, args = args }
      return object
    end
    heap.details = function() return details end
    heap.fd = function() return 0 end
    graph.open = function() return graph.read_gcdump(sys.home .. "/tests/data/heap/leak.gcdump") end
  end)

  after_each(function()
    handles.clear()
    worker.run, worker.json, heap.details, heap.fd, graph.open = real.run, real.json, real.details, real.fd, real.open
  end)

  local function open(more)
    local arguments = { source = "dump", dumpFilePath = FILE }
    for k, v in pairs(more or {}) do arguments[k] = v end
    return kit.call(inspect_heap, arguments, ctx())
  end

  local function walk_live() return walk.walk({}, { process = { pid = 4711, start_time = 99 } }) end

  describe("of a process", function()
    it("tells the worker whom to stop, and how much memory it may take", function()
      local artifact = assert(walk_live())
      assert.same({ "heap", 4711, "99", 4711 }, { sent[1].job, sent[1].args.pid, sent[1].args.startTicks, sent[1].options.attach })
      assert.is_true(sent[1].args.copyMax >= 1 << 28 and sent[1].args.memoryMax >= 1 << 30)
      assert.same({ 4711, 12.5, 1 }, { artifact.process_id, artifact.suspend_ms, #sent })
      assert.is_true(sent.closed)
      artifact.graph:close()
    end)

    it("asks once more when the worker fell over, and says so", function()
      replies = { failed("Internal", "the worker died of signal 11") }
      local artifact = assert(walk_live())
      assert.equal(2, #sent)
      assert.matches("^Again: the first walk failed %(.*signal 11", artifact.warnings[#artifact.warnings])
      artifact.graph:close()
    end)

    it("gives up the second time", function()
      replies = { failed("Internal", "one"), failed("Internal", "two") }
      local artifact, err = walk_live()
      assert.same({ nil, "Internal", "two", 2 }, { artifact, err.kind, err.message, #sent })
    end)

    it("does not ask twice what has a reason, nor a dump", function()
      replies = { failed("ProcessExited", "gone") }
      assert.equal("ProcessExited", select(2, walk_live()).kind)
      replies = { failed("Internal", "one") }
      assert.equal("Internal", select(2, walk.walk({}, { path = FILE })).kind)
      assert.equal(2, #sent)
    end)

    it("names the other ways when a walk would take too much", function()
      replies = { failed("LimitExceeded", "the heap of 9000 MB would have to be copied, and 400 MB may be used") }
      local _, err = walk_live()
      assert.equal("NotSupported", err.kind)
      assert.matches("9000 MB", err.message)
      assert.same({ "inspect_heap", "inspect_heap", "collect_process_dump" },
        { err.hints[1].nextTool, err.hints[2].nextTool, err.hints[3].nextTool })
      assert.same({ "totals", "gcdump" }, { err.hints[1].suggestedArguments.detail, err.hints[2].suggestedArguments.source })
      replies = { failed("OutOfMemory", "no memory for a copy of 65003520 bytes of the heap") }
      assert.equal("NotSupported", select(2, walk_live()).kind)
      replies = { failed("OutOfMemory", "no memory for the graph") }
      assert.equal("OutOfMemory", select(2, walk.walk({}, { path = FILE })).kind)
    end)
  end)

  it("refuses an answer that is none", function()
    details = "{"
    local artifact, err = walk_live()
    assert.is_nil(artifact)
    assert.is_table(err)
    heap.details = function() return nil, failed("MalformedInput", "the worker's result is no heap") end
    assert.equal("MalformedInput", select(2, walk_live()).kind)
  end)

  it("passes on what to keep, and carries figures and notes of the worker", function()
    local envelope = open { includeStaticFields = true }
    assert.same({ true, false, false },
      { sent[1].args.statics, sent[1].args.delegates or false, sent[1].args.strings or false })
    assert.same({ "dump", 42, "10.0.12" }, { envelope.data.source, envelope.data.processId, envelope.data.runtime.version })
    assert.same({ 17424, 112, 52417 }, { envelope.data.heap.gen0Bytes, envelope.data.heap.gen1Bytes, envelope.data.heap.gen2Bytes })
    assert.equal("Partial: something is missing.", envelope.data.warnings[1])
  end)

  describe("view", function()
    local function data(name, more) return ask(open().handle, name, more).data end

    it("fragmentation", function()
      local envelope = ask(open().handle, "fragmentation")
      assert.same({ 2, 21384, "0x7f8199800028" }, { #envelope.data.segments, envelope.data.segments[1].freeBytes,
        envelope.data.segments[1].start })
      assert.matches("^21432 of 106904 bytes in 2 regions are free", envelope.summary)
      assert.equal(1, #data("fragmentation", { topN = 1 }).segments)
    end)

    it("finalizer-queue", function()
      local envelope = ask(open().handle, "finalizer-queue")
      assert.same({ "Shop.Finalized", 20, 10 }, { envelope.data.finalizableObjects[1].typeFullName,
        envelope.data.finalizableObjects[1].instanceCount, envelope.data.finalizableObjects[1].readyCount })
      assert.matches("^21 objects of 2 types have a finalizer; 10 wait", envelope.summary)
    end)

    it("gchandles", function()
      local envelope = ask(open().handle, "gchandles")
      assert.same({ 23, "Strong", 19 }, { envelope.data.gcHandles.totalHandles, envelope.data.gcHandles.byKind[1].kind,
        envelope.data.gcHandles.byKind[1].count })
      assert.matches("^23 handles: 19 Strong, 4 Pinned", envelope.summary)
    end)

    it("timers", function()
      local envelope = ask(open().handle, "timers")
      assert.same({ 3, "OnTick" }, { envelope.data.timers.totalTimers, envelope.data.timers.timersByCallback[1].methodName })
      assert.matches("^3 timers by 1 callback, 8 tasks, 1 completion", envelope.summary)
    end)

    it("async", function()
      local rows = data("async").asyncOperations
      assert.same({ "Shop.Orders+<Inner>d__17", "Shop.Orders+<Outer>d__16" },
        { rows[1].stateMachineTypeFullName, rows[1].stack[1].stateMachineTypeFullName })
    end)

    it("retention-paths only where they were asked for: else RetentionPathsMissing, with the walk that has them", function()
      local handle = open().handle
      local envelope = ask(handle, "retention-paths")
      assert.same({ "RetentionPathsMissing", handle }, { envelope.error.kind, envelope.error.detail })
      assert.is_nil(envelope.data)
      assert.same({ "inspect_heap", true }, { envelope.hints[1].nextTool, envelope.hints[1].suggestedArguments.includeRetentionPaths })
    end)

    it("alc, those that may go first, with the way to what keeps them", function()
      local handle = open { includeRetentionPaths = true }.handle
      local chain = ask(handle, "retention-paths", { typeFullName = "Subscriber" }).data.retentionPaths[1]
      details = walked.details { alc_address = chain.targetObjectAddress }
      local envelope = ask(open().handle, "alc")
      local contexts = envelope.data.assemblyLoadContexts.contexts
      assert.same({ "never-unloads", "Default" }, { contexts[1].name, contexts[2].name })
      assert.equal("Lunette.Target.Subscriber", contexts[1].retention[#contexts[1].retention].typeFullName)
      assert.is_string(contexts[1].retention[1].rootKind)
      assert.is_nil(contexts[2].retention)
      assert.matches("^2 load contexts; 1 of them", envelope.summary)
    end)

    it("static-fields and delegate-targets", function()
      local statics = ask(open().handle, "static-fields")
      local field = statics.data.staticFields[1]
      assert.same({ "Shop.Cache", "Instance" }, { field.containingTypeFullName, field.fieldName })
      assert.matches("the largest: Shop%.Cache%.Instance", statics.summary)
      local delegates = ask(open().handle, "delegate-targets")
      assert.same({ 3, false }, { delegates.data.delegateTargets[1].subscriberCount, delegates.data.delegateTargets[1].isStaticTarget })
      assert.matches("most by Shop%.Orders%.OnTick: 3", delegates.summary)
    end)

    it("says which parameter was missing, where the walk did not keep it", function()
      details = walked.details { without = { "static-fields", "delegate-targets", "duplicate-strings" } }
      local handle = open().handle
      for name, parameter in pairs {
        ["static-fields"] = "includeStaticFields", ["delegate-targets"] = "includeDelegateTargets",
        ["duplicate-strings"] = "includeDuplicateStrings",
      } do
        local envelope = ask(handle, name)
        assert.same({ "ViewNotCaptured", name }, { envelope.error.kind, envelope.error.detail })
        assert.matches(parameter, envelope.error.message)
        assert.is_true(envelope.hints[1].suggestedArguments[parameter])
      end
    end)

    it("says when nothing was found", function()
      details = walked.details { empty = { "async", "delegate-targets", "static-fields" } }
      local handle = open().handle
      assert.equal("No async method waits.", ask(handle, "async").summary)
      assert.equal("There are no delegates.", ask(handle, "delegate-targets").summary)
      assert.equal("No static field refers to an object.", ask(handle, "static-fields").summary)
    end)
  end)

  describe("shows values of", function()
    local function previews(scopes, flag)
      local rows = ask(open().handle, "duplicate-strings", { includeSensitiveValues = flag }, scopes).data.duplicateStrings
      return { rows[1].preview, rows[2].preview }
    end

    it("duplicate-strings to flag and literal scope alone, without their secrets", function()
      local hidden = { HIDDEN, HIDDEN }
      assert.same(hidden, previews(BOTH, nil))
      assert.same(hidden, previews(BOTH, false))
      assert.same(hidden, previews({ "root" }, true))
      assert.same({ "the same text again", "Server=db;Password=" .. SECRET }, previews(BOTH, true))
    end)

    it("an object alike, asking the worker where the heap came from", function()
      object = walked.object()
      local function shown(scopes, flag)
        local found = ask(open().handle, "object", { address = "0x10", includeSensitiveValues = flag }, scopes).data.objectDetails
        assert.same({ "heap-object", FILE, "0x10" }, { sent[#sent].job, sent[#sent].args.dumpFilePath, sent[#sent].args.address })
        return { found.fields[1].value, found.fields[2].value }
      end
      assert.same({ HIDDEN, HIDDEN }, shown(BOTH, nil))
      assert.same({ HIDDEN, HIDDEN }, shown({ "root" }, true))
      assert.same({ "7", "Server=db;Password=" .. SECRET }, shown(BOTH, true))
    end)

    it("no text in the resource of the handle, whoever asks", function()
      local handle = open().handle
      local entry = assert(handles.get(handle))
      local body = json.encode(entry.artifact:resource(entry))
      assert.is_nil(body:find("hunter2", 1, true))
      assert.is_nil(body:find("the same text again", 1, true))
    end)
  end)
end)
