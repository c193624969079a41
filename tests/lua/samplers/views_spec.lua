-- SPDX-License-Identifier: MIT
-- Views of sample captures: order, limits, the root, what is compact, callers and callees, triage; over a recording of threads that stand
-- still, and with a made-up profile where a recording has nothing to show.
local call_tree = require("samplers.views.call_tree")
local handles = require("lunette.handles")
local json = require("lunette.json")
local kinds = require("lunette.kinds")
local leaders = require("samplers.leaders")
local sampled = require("support.sampled")
local top_methods = require("samplers.views.top_methods")

local EVIDENCE <const> = { backend = "EventPipeSampleProfiler", kind = "StackFrequencyWithHeuristicWaits" }
local ROOT <const> = "<root>"

local function capture() return select(2, sampled.capture("cpu", "stand")).handle end

local function refused(handle, name, options, kind, detail)
  local _, envelope = sampled.ask(handle, name, options)
  assert.same({ kind, detail }, { envelope.error and envelope.error.kind, envelope.error and envelope.error.detail })
  assert.is_nil(envelope.data)
  return envelope.error.message
end

-- fn(node, depth) for every node below one.
local function walk(node, fn, depth)
  fn(node, depth or 0)
  for _, child in ipairs(node.children) do walk(child, fn, (depth or 0) + 1) end
end

local function falling(rows, value)
  for i = 2, #rows do assert.is_true(value(rows[i]) <= value(rows[i - 1]), i) end
end

describe("every view of a CPU sample", function()
  it("carries the evidence, and is the default call-tree", function()
    local handle = capture()
    for _, name in ipairs { "call-tree", "top-methods", "by-module", "by-namespace", "hot-path", "triage" } do
      assert.same(EVIDENCE, sampled.ask(handle, name).evidence, name)
    end
    assert.same(EVIDENCE, sampled.ask(handle, "caller-callee", { rootMethodFilter = "Standing.Burn" }).evidence)
    assert.equal("call-tree", kinds.get("cpu-sample").default_view)
    assert.same({ 20, 5 }, { kinds.get("cpu-sample").views["top-methods"].options.topN.default,
      kinds.get("cpu-sample").views.triage.options.topN.default })
  end)

  it("needs investigation-export, and collects nothing", function()
    local handle = capture()
    local query_snapshot, kit = require("tools.query_snapshot"), require("support.framework_kit")
    local envelope, result = kit.call(query_snapshot, { handle = handle, view = "top-methods" }, sampled.ctx { scopes = { "eventpipe" } })
    assert.same({ "PermissionDenied", "investigation-export", true }, { envelope.error.kind, envelope.error.detail, result.isError })
    local window = require("collectors.window")
    local run = window.run
    finally(function() window.run = run end)
    function window.run() error("a view opened a window") end
    for _, name in ipairs { "call-tree", "top-methods", "by-module", "by-namespace", "hot-path", "triage" } do sampled.ask(handle, name) end
  end)

  it("never has <root> among its rows; as a caller it marks an entry", function()
    local handle = select(2, sampled.capture("cpu", "net8-stand")).handle -- its threads begin in the program's own methods
    for _, name in ipairs { "top-methods", "by-module", "by-namespace", "hot-path" } do
      local data = sampled.ask(handle, name, { topN = 500, hotPathThresholdPercent = 1 })
      for _, row in ipairs(data.methods or data.path or data.groups) do
        assert.is_true(row.method ~= ROOT and row.module ~= ROOT and row.key ~= ROOT, name)
      end
    end
    local callers = sampled.ask(handle, "caller-callee", { rootMethodFilter = "Standing.Burn" }).callers
    assert.same({ 1, ROOT }, { #callers, callers[1].method })
    assert.is_nil(callers[1].identity)
  end)
end)

describe("call-tree", function()
  it("is cut by depth, with the heaviest children first, and says that it is cut", function()
    local handle = capture()
    local data = sampled.ask(handle, "call-tree", { maxDepth = 2 })
    local deepest, nodes = 0, 0
    walk(data.root, function(node, depth)
      deepest, nodes = math.max(deepest, depth), nodes + 1
      falling(node.children, function(child) return child.inclusiveSamples end)
    end)
    assert.same({ 2, data.nodeCount, true, ROOT }, { deepest, nodes, data.truncated, data.root.frame.method })
    assert.equal(data.totalSamples, data.root.inclusiveSamples)
    data = sampled.ask(handle, "call-tree", { maxDepth = 100, maxNodes = 2000 })
    assert.is_false(data.truncated)
    local own = 0
    walk(data.root, function(node)
      own = own + node.exclusiveSamples
      assert.equal(node.exclusiveSamples > 0, node.selfSamples ~= nil)
    end)
    assert.equal(data.totalSamples, own)
  end)

  it("is cut by nodes, and counts the children that were left out", function()
    local data = sampled.ask(capture(), "call-tree", { maxNodes = 5 })
    local nodes, left_out = 0, 0
    walk(data.root, function(node) nodes, left_out = nodes + 1, left_out + (node.childrenLeftOut or 0) end)
    assert.same({ 5, 5, true }, { data.nodeCount, nodes, data.truncated })
    assert.is_true(left_out > 0)
  end)

  it("compact is 3 deep and has 16 nodes whatever is asked", function()
    for _, more in ipairs { {}, { maxDepth = 50, maxNodes = 1000 } } do
      more.depth = "compact"
      local data = sampled.ask(capture(), "call-tree", more)
      local deepest = 0
      walk(data.root, function(_, depth) deepest = math.max(deepest, depth) end)
      assert.is_true(deepest <= 3 and data.nodeCount <= 16 and data.truncated)
    end
  end)

  it("begins at the best match of a filter; without a match it is NotFound", function()
    local handle = capture()
    local data, envelope = sampled.ask(handle, "call-tree", { rootMethodFilter = "Standing.TaskWait" })
    assert.equal("Lunette.Target.Standing.TaskWait()", data.root.frame.method)
    assert.matches("from Lunette.Target.Standing.TaskWait()", envelope.summary, 1, true)
    assert.matches("No method", refused(handle, "call-tree", { rootMethodFilter = "NoSuchThing" }, "NotFound", "NoSuchThing"))
    refused(handle, "call-tree", { maxDepth = 0 }, "InvalidArgument", "maxDepth")
    refused(handle, "call-tree", { maxNodes = 0 }, "InvalidArgument", "maxNodes")
  end)

  it("stays within an answer when names are long, and never passes its ceilings", function()
    local asked = {}
    local name = ("Very.Long.Name<%s>.Method()"):format(("x"):rep(600))
    local function node(n)
      return { frame = 1, module = "m", method = name, inclusive = n, exclusive = n, running = 0, waiting = 0, unknown = n, children = {} }
    end
    local artifact = {
      info = { samples = 5000, running = 0, waiting = 0, unknown = 5000 }, modules = {}, evidence = EVIDENCE, process_id = 1,
      profile = {
        call_tree = function(_, query)
          asked[#asked + 1] = { query.max_depth, query.max_nodes }
          local root = node(5000)
          for i = 1, query.max_nodes - 1 do root.children[i] = node(1) end
          return { nodes = query.max_nodes, truncated = true, root = root }
        end,
        frame = function() return { kind = "native" } end,
      },
    }
    local data = assert(call_tree.project(artifact, { maxDepth = 9999, maxNodes = 99999 }, { process_id = 1 }))
    assert.same({ 100, 2000 }, asked[1])
    assert.is_true(#asked > 1 and #json.encode(data) < 76 * 1024)
    assert.is_true(#data.root.frame.method <= 400)
  end)
end)

describe("top-methods", function()
  it("is by samples of their own; inclusive and running reorder, and any other word is exclusive", function()
    local handle = capture()
    local data = sampled.ask(handle, "top-methods")
    assert.same({ "exclusive", 20, 20 }, { data.rankBy, data.returned, #data.methods })
    falling(data.methods, function(row) return row.exclusiveSamples end)
    local inclusive = sampled.ask(handle, "top-methods", { rankBy = "inclusive" })
    falling(inclusive.methods, function(row) return row.inclusiveSamples end)
    assert.equal("System.Threading.Thread.StartCallback()", inclusive.methods[1].method)
    local running, envelope = sampled.ask(handle, "top-methods", { rankBy = "running" })
    assert.equal("running", running.rankBy)
    falling(running.methods, function(row) return row.exclusiveSamples end)
    assert.matches("do not tell whether a thread was scheduled", envelope.summary, 1, true)
    assert.equal("exclusive", sampled.ask(handle, "top-methods", { rankBy = "bytes" }).rankBy)
    assert.equal("exclusive", sampled.ask(handle, "top-methods", { rankBy = "whatever" }).rankBy)
  end)

  it("keeps waits in their place with a label, and others have none; the leader's is in the summary", function()
    local data, envelope = sampled.ask(capture(), "top-methods")
    assert.same({ "System.Threading.Monitor.Wait(class System.Object,int32)", "Monitor.Wait" },
      { data.methods[1].method, data.methods[1].waitReason })
    assert.is_nil(sampled.row(data.methods, "Standing.Burn()").waitReason)
    assert.matches("known wait: Monitor.Wait", envelope.summary, 1, true)
    assert.matches("StackFrequencyWithHeuristicWaits", envelope.summary, 1, true)
  end)

  it("gives the time of threads, by which it can be ordered", function()
    local handle = select(2, sampled.capture("cpu", "cpu")).handle
    local data, envelope = sampled.ask(handle, "top-methods", { rankBy = "time" })
    assert.equal("time", data.rankBy)
    falling(data.methods, function(row) return row.exclusiveMs end)
    assert.matches("time of threads in itself", envelope.summary, 1, true)
    falling(sampled.ask(handle, "top-methods", { rankBy = "inclusive_time" }).methods, function(row) return row.inclusiveMs end)
  end)

  it("gives shares of all samples", function()
    local data = sampled.ask(capture(), "top-methods", { topN = 100 })
    for _, row in ipairs(data.methods) do
      assert.near(100 * row.exclusiveSamples / data.totalSamples, row.exclusivePercent, 0.006)
      assert.near(100 * row.inclusiveSamples / data.totalSamples, row.inclusivePercent, 0.006)
    end
    refused(capture(), "top-methods", { topN = 0 }, "InvalidArgument", "topN")
  end)

  it("compact has five rows whatever is asked", function()
    assert.equal(5, sampled.ask(capture(), "top-methods", { depth = "compact", topN = 100 }).returned)
    assert.equal(2, sampled.ask(capture(), "top-methods", { depth = "compact", topN = 2 }).returned)
  end)

  it("hands foldAsync on, and marks rows of the async shape either way", function()
    local asked
    local artifact = {
      info = { samples = 10 }, modules = {}, evidence = EVIDENCE, process_id = 1,
      profile = {
        top_methods = function(_, query)
          asked = query.fold_async
          return { { frame = 1, module = "m", method = asked and "O.N() [async]" or "O+<N>d__1.MoveNext()", inclusive = 9, exclusive = 9,
            running = 0, waiting = 0, unknown = 9, async = true } }
        end,
        frame = function() return { kind = "native" } end,
      },
    }
    for _, fold in ipairs { true, false } do
      local row = top_methods.project(artifact, { foldAsync = fold }, {}).methods[1]
      assert.equal(fold, asked)
      assert.same({ fold and "O.N() [async]" or "O+<N>d__1.MoveNext()", true, 9 }, { row.method, row.asyncFolded, row.exclusiveSamples })
    end
  end)

  it("calls samples of the kernel measured", function()
    local row = { frame = 1, module = "m", method = "A.B()", inclusive = 9, exclusive = 9, running = 9, waiting = 0, unknown = 0 }
    local artifact = {
      info = { samples = 10, running = 9, waiting = 0, unknown = 1 }, modules = {}, process_id = 1,
      evidence = { backend = "LinuxPerf", kind = "OsOnCpuSamples" },
      profile = {
        top_methods = function() return { row } end, frame = function() return { kind = "managed", type = "", name = "B" } end,
        hot_path = function() return {} end,
      },
    }
    local _, extras = top_methods.project(artifact, { rankBy = "running" }, {})
    assert.is_nil(extras.summary:find("scheduled", 1, true))
    local data = require("samplers.views.triage").project(artifact, {}, { id = "H" })
    assert.same({ "on-cpu-observed", 9 }, { data.verdict, data.topBusyMethods[1].selfSamples.runningSamples })
  end)
end)

describe("by-module and by-namespace", function()
  it("sum samples of their own to the whole, largest first", function()
    for _, name in ipairs { "by-module", "by-namespace" } do
      local data = sampled.ask(capture(), name, { topN = 500 })
      local own, split = 0, 0
      falling(data.groups, function(row) return row.exclusiveSamples end)
      for _, row in ipairs(data.groups) do
        own = own + row.exclusiveSamples
        split = split + row.selfSamples.waitingSamples + row.selfSamples.unknownSamples + row.selfSamples.runningSamples
        assert.is_true(row.inclusiveSamples >= row.exclusiveSamples and row.inclusiveSamples <= data.totalSamples)
      end
      assert.same({ data.totalSamples, data.totalSamples, #data.groups }, { own, split, data.returned })
      assert.equal(1, #sampled.ask(capture(), name, { topN = 1 }).groups)
    end
    local modules = sampled.ask(capture(), "by-module").groups
    assert.same({ "System.Private.CoreLib", 100 }, { modules[1].key, modules[1].inclusivePercent })
    local spaces = {}
    for _, row in ipairs(sampled.ask(capture(), "by-namespace", { topN = 500 }).groups) do spaces[row.key] = row end
    assert.is_true(spaces["System.Threading"].exclusivePercent > 70)
    assert.is_table(spaces["Lunette.Target"])
    assert.is_table(spaces["<none>"])
  end)
end)

describe("hot-path", function()
  it("goes down while the heaviest child holds the threshold, and refuses 0 and 101", function()
    local handle = capture()
    local data = sampled.ask(handle, "hot-path")
    assert.same({ 50, 1, "System.Threading.Thread.StartCallback()" }, { data.thresholdPercent, data.depth, data.leaf.method })
    local deeper = sampled.ask(handle, "hot-path", { hotPathThresholdPercent = 5 })
    assert.is_true(deeper.depth > 1 and #deeper.path == deeper.depth)
    local above = deeper.totalSamples
    for _, row in ipairs(deeper.path) do
      if above then assert.is_true(row.inclusiveSamples * 100 >= 5 * above) end
      above = row.inclusiveSamples
    end
    assert.same(deeper.path[#deeper.path].method, deeper.leaf.method)
    assert.is_nil(sampled.ask(handle, "hot-path", { hotPathThresholdPercent = 100 }).leaf)
    refused(handle, "hot-path", { hotPathThresholdPercent = 0 }, "InvalidArgument", "hotPathThresholdPercent")
    refused(handle, "hot-path", { hotPathThresholdPercent = 101 }, "InvalidArgument", "hotPathThresholdPercent")
  end)
end)

describe("caller-callee", function()
  it("has the cost of the focus, its callers and its callees", function()
    local handle = capture()
    local data = sampled.ask(handle, "caller-callee", { rootMethodFilter = "System.Threading.Monitor.Wait(class System.Object,int32)" })
    local focus, sum = data.focus, 0
    assert.same({ "Monitor.Wait", 0 }, { focus.waitReason, #data.callees })
    falling(data.callers, function(row) return row.inclusiveSamples end)
    for _, row in ipairs(data.callers) do sum = sum + row.inclusiveSamples end
    assert.equal(focus.inclusiveSamples, sum)
    assert.is_table(sampled.row(data.callers, "Lunette.Target.Standing.MonitorWait()"))
    local callees = sampled.ask(handle, "caller-callee", { rootMethodFilter = "Standing.MonitorWait" }).callees
    assert.same({ 1, focus.method }, { #callees, callees[1].method })
  end)

  it("is NotFound without a match, and lists the candidates of several", function()
    local handle = capture()
    refused(handle, "caller-callee", { rootMethodFilter = "NoSuchThing" }, "NotFound", "NoSuchThing")
    local message = refused(handle, "caller-callee", { rootMethodFilter = "Standing." }, "InvalidArgument", "rootMethodFilter")
    assert.matches("lunette-target!Lunette.Target.Standing.Burn()", message, 1, true)
    assert.matches("lunette-target!Lunette.Target.Standing.Sleep()", message, 1, true)
    refused(handle, "caller-callee", {}, "InvalidArgument", "rootMethodFilter")
  end)
end)

describe("async", function()
  it("puts what runs behind an await under its operation, and says how much", function()
    local handle = select(2, sampled.capture("cpu", "cpu")).handle
    local plain = sampled.ask(handle, "call-tree", { rootMethodFilter = "Hot.Async(", maxDepth = 50 })
    local data, envelope = sampled.ask(handle, "async", { rootMethodFilter = "Hot.Async(", maxDepth = 50 })
    assert.same({ 75, 0, 0 }, { data.joinedSamples, data.unseenSamples, data.ambiguousSamples })
    assert.equal(plain.root.inclusiveSamples + 75, data.root.inclusiveSamples)
    assert.equal(plain.totalSamples, data.totalSamples)
    local moved
    walk(data.root, function(node) moved = moved or node.frame.method:find("<WorkAsync>d__25.MoveNext()", 1, true) end)
    assert.is_truthy(moved)
    assert.matches("75 samples stand below the code that began the operation; of 0 its beginning was not seen", envelope.summary, 1, true)
    assert.same(EVIDENCE, data.evidence)
  end)
end)

describe("triage", function()
  it("is unclassified for EventPipe, with leaders beside waits, waits by label, the end of the hot path", function()
    local handle = capture()
    local data, envelope = sampled.ask(handle, "triage")
    assert.equal("unclassified", data.verdict)
    assert.same({ "Lunette.Target.Standing.Burn()", 5 }, { data.topBusyMethods[1].method, #data.topBusyMethods })
    for _, row in ipairs(data.topBusyMethods) do assert.is_nil(row.waitReason) end
    falling(data.waitCategories, function(row) return row.exclusiveSamples end)
    assert.equal("Monitor.Wait", data.waitCategories[1].waitReason)
    assert.near(100 * data.waitCategories[1].exclusiveSamples / sampled.ask(handle, "top-methods").totalSamples,
      data.waitCategories[1].percent, 0.006)
    assert.same({ "System.Threading.Thread.StartCallback()", 1 }, { data.hotPathLeaf.method, data.hotPathDepth })
    for _, word in ipairs { "Unclassified", "Standing.Burn()", "Monitor.Wait", "StartCallback" } do
      assert.matches(word, envelope.summary, 1, true)
    end
    local hint = envelope.hints[1]
    assert.same({ "query_snapshot", "caller-callee", "lunette-target!Lunette.Target.Standing.Burn()" },
      { hint.nextTool, hint.suggestedArguments.view, hint.suggestedArguments.rootMethodFilter })
    local followed = sampled.ask(handle, "caller-callee", { rootMethodFilter = hint.suggestedArguments.rootMethodFilter })
    assert.equal("Lunette.Target.Standing.Burn()", followed.focus.method)
    assert.equal(2, #sampled.ask(handle, "triage", { topN = 2 }).topBusyMethods)
  end)

  it("points to the tree when no method leads", function()
    local _, envelope = sampled.ask(select(2, sampled.capture("cpu", "quiet")).handle, "triage")
    assert.equal("call-tree", envelope.hints[1].suggestedArguments.view)
  end)

  it("adds up waits of several methods under one label", function()
    local artifact = select(3, sampled.capture("cpu", "stand"))
    local _, waits = leaders.of(artifact, 5)
    local sum = 0
    for _, wait in ipairs(waits) do sum = sum + wait.samples end
    assert.equal(artifact.info.waiting, sum)
    handles.clear()
  end)
end)
