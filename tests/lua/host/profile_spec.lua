-- SPDX-License-Identifier: MIT
--- lunette.profile as scripts see it, over recordings of the target. Trees, names and counts themselves are tested in tests/native/profile.
local events = require("lunette.events")
local loop = require("lunette.loop")
local profile = require("lunette.profile")
local replay = require("support.replay")

local RECORDINGS <const> = "tests/data/recordings/"
local WAITS <const> = {
  { name = "System.Threading.WaitHandle.*", reason = "WaitHandle" }, { name = "System.Threading.LowLevelLifoSemaphore.*", reason = "idle" },
}

--- The artifact of a recording.
local function artifact_of(name, options)
  local builder <close> = assert(profile.new(options))
  local source <close> = assert(events.open { path = RECORDINGS .. name, tap = builder })
  assert.equal("NotFound", select(2, source:next(60000)).kind) -- the end: no event comes to Lua
  assert(source:stop())
  assert.is_true(builder:progress().ended)
  return assert(builder:build())
end

local function frame_of(artifact, method) return assert(artifact:match(method)[1], method).frame end

local function methods(rows)
  local list = {}
  for i, row in ipairs(rows) do list[i] = row.method end
  return list
end

describe("a profile of CPU samples", function()
  local a
  before_each(function() a = artifact_of("cpu.zip", { kind = "cpu", waits = WAITS }) end)
  after_each(function() a:close() end)

  it("tells of the whole capture", function()
    local info = a:info()
    assert.same({ "cpu", 5427, 0, 3293, 2134, 9, 1293, 4134 },
      { info.kind, info.samples, info.running, info.waiting, info.unknown, info.threads, info.managed, info.external })
    assert.same({ 0, 0, 0, 0, 0, 0 }, { info.no_stack, info.dropped, info.cut, info.unresolved, info.bad, info.methods_dropped })
    assert.is_false(info.states)
    assert.is_nil(info.bytes)
    assert.is_true(info.last_ns > info.first_ns and info.memory > 0 and info.build_ms >= info.name_ms)
    local threads, sum, time = a:threads(), 0, 0
    for _, t in ipairs(threads) do sum, time = sum + t.inclusive, time + t.exclusive_ns end
    assert.same({ 9, 5427, info.thread_ns }, { #threads, sum, time })
    assert.equal("profile of 5427 samples", tostring(a))
  end)

  it("ranks methods", function()
    local rows = a:top_methods { top = 2 }
    assert.same({ 2, 130 }, { #rows, rows.all })
    assert.same({ 2134, 2134, 0, 2134, 0, "idle", false, "System.Private.CoreLib" }, {
      rows[1].inclusive, rows[1].exclusive, rows[1].running, rows[1].waiting, rows[1].unknown, rows[1].wait_reason, rows[1].async,
      rows[1].module,
    })
    local by = a:top_methods { top = 1, rank_by = "inclusive" }[1]
    assert.same({ "System.Threading.Thread.StartCallback()", 0 }, { by.method, by.exclusive })
    assert.equal(by.frame, a:top_methods { top = 1, rank_by = "inclusive_time" }[1].frame)
    local fields = a:top_methods { rank_by = "time" }
    for i = 2, #fields do assert.is_true(fields[i].exclusive_ns <= fields[i - 1].exclusive_ns) end
    assert.same(methods(a:top_methods()), methods(a:top_methods { rank_by = "running" })) -- states were not told
    assert.has_error(function() a:top_methods { rank_by = "size" } end)
  end)

  it("folds the name of a state machine, and nothing else", function()
    local plain, folded = a:top_methods { top = 200 }, a:top_methods { top = 200, fold_async = true }
    local n = 0
    for i, row in ipairs(folded) do
      assert.same({ plain[i].frame, plain[i].exclusive, plain[i].async }, { row.frame, row.exclusive, row.async })
      if row.method ~= plain[i].method then
        n = n + 1
        assert.is_true(row.async)
        if row.method:find("WorkAsync", 1, true) then assert.equal("Lunette.Target.Hot.WorkAsync() [async]", row.method) end
      end
    end
    assert.is_true(n >= 1)
  end)

  it("groups by module and namespace", function()
    local modules = a:by_module { top = 3 }
    assert.same({ "System.Private.CoreLib", "System.Console", "lunette-target" }, { modules[1].key, modules[2].key, modules[3].key })
    assert.same({ 755, 755 }, { modules[2].inclusive, modules[2].exclusive })
    assert.equal("System.Threading", a:by_namespace { top = 1 }[1].key)
    local names = a:by_namespace { top = 1000 }
    local sum = 0
    for _, row in ipairs(names) do sum = sum + row.exclusive end
    assert.same({ 5427, #names }, { sum, names.all })
  end)

  it("shows a method", function()
    local f = a:frame(frame_of(a, "Hot.TightLoop"))
    assert.same({ "Lunette.Target.Hot.TightLoop(int32)", "Lunette.Target.Hot", "TightLoop", "int64  (int32)" },
      { f.method, f.type, f.name, f.signature })
    assert.same({ "managed", "Lunette.Target", 187 }, { f.kind, f.namespace, f.exclusive })
    assert.equal(6, f.token >> 24)
    assert.is_nil(f.async_name)
    local m = a:modules()[f.module_index]
    assert.same({ "lunette-target", "/opt/demo/net10.0/lunette-target.dll", 1 }, { m.name, m.path, m.pdb_age })
    assert.is_truthy(m.pdb_guid:match("^%x+%-%x+%-%x+%-%x+%-%x+$") and m.pdb_path:match("lunette%-target%.pdb$"))
    local hot = f.addresses[1]
    assert.is_truthy(hot.address:match("^0x%x+$") and hot.method_id:match("^0x%x+$") and hot.il_offset and hot.samples > 0)
    assert.equal("<root>", a:frame(0).method)
    assert.equal("NotFound", select(2, a:frame(99999)).kind)
    assert.equal(130, #a:frames())
    assert.equal(f.method, a:frames { first = f.frame, count = 1 }[1].method)
  end)

  it("follows the hot path and the edges of a method", function()
    local path = a:hot_path { threshold = 50 }
    assert.equal("System.Threading.Thread.StartCallback()", path[1].method)
    for i = 2, #path do assert.is_true(path[i].inclusive * 2 >= path[i - 1].inclusive) end
    assert.same({}, a:hot_path { threshold = 100 })
    local x = a:caller_callee { frame = frame_of(a, "Hot.TightLoop") }
    assert.same({ 187, { "Lunette.Target.Hot.Loop(int64)" }, {} }, { x.focus.inclusive, methods(x.callers), methods(x.callees) })
    local main = a:caller_callee { frame = frame_of(a, "Program.Main") }
    assert.same({ 0, "<root>" }, { main.callers[1].frame, main.callers[1].method })
    assert.equal("NotFound", select(2, a:caller_callee { frame = 0 }).kind)
  end)

  it("gives parts of the tree", function()
    local tree = a:call_tree { max_depth = 2, max_nodes = 4 }
    assert.same({ 4, true, "<root>", 5427 }, { tree.nodes, tree.truncated, tree.root.method, tree.root.inclusive })
    local function count(node)
      local n = 1
      for _, child in ipairs(node.children) do n = n + count(child) end
      return n
    end
    assert.equal(4, count(tree.root))
    local loop_tree = a:call_tree { root_frame = frame_of(a, "Hot.Loop(") }
    assert.same({ false, "Lunette.Target.Hot.Loop(int64)", 187, "Lunette.Target.Hot.TightLoop(int32)" },
      { loop_tree.truncated, loop_tree.root.method, loop_tree.root.inclusive, loop_tree.root.children[1].method })
    local up = a:call_tree { root_frame = frame_of(a, "Hot.TightLoop"), callers = true }
    assert.same({ "Lunette.Target.Hot.Loop(int64)", "Lunette.Target.Hot.Turn()" },
      { up.root.children[1].method, up.root.children[1].children[1].method })
    assert.equal("NotFound", select(2, a:call_tree { root_frame = 99999 }).kind)
    assert.has_error(function() a:call_tree { max_depth = 0 } end)
  end)

  it("gives all nodes, in pages", function()
    local info = a:info()
    local all = a:nodes(0, 65536)
    assert.equal(info.nodes, #all.parent)
    assert.same({ -1, 0, 5427, info.thread_ns }, { all.parent[1], all.frame[1], all.inclusive[1], all.inclusive_ns[1] })
    assert.is_nil(all.before_inclusive)
    local sum = 0
    for _, n in ipairs(all.exclusive) do sum = sum + n end
    assert.equal(5427, sum)
    local page = a:nodes(10, 5)
    for i = 1, 5 do assert.equal(all.parent[10 + i], page.parent[i]) end
    assert.same({}, a:nodes(info.nodes, 10).parent)
    assert.has_error(function() a:nodes(0, 65537) end)
    assert.has_error(function() a:nodes(-1, 1) end)
  end)

  it("is compared with another one", function()
    local other = artifact_of("cpu.zip", { kind = "cpu" })
    local rows = a:diff(other)
    assert.equal(130, #rows)
    for _, row in ipairs(rows) do assert.equal(row.before.inclusive, row.after.inclusive) end
    local both = assert(a:overlay(other))
    other:close()
    local nodes = both:nodes(0, 65536)
    assert.same(nodes.inclusive, nodes.before_inclusive)
    assert.same(a:nodes(0, 65536).inclusive, nodes.inclusive)
  end)

  it("is gone when it is closed", function()
    a:close()
    assert.equal("profile (closed)", tostring(a))
    assert.has_error(function() a:info() end)
  end)
end)

describe("a profile of allocations", function()
  it("has types and sites, by bytes", function()
    local a <close> = artifact_of("sites.zip", { kind = "allocation" })
    local info = a:info()
    assert.same({ "allocation", 904, 100987552 }, { info.kind, info.samples, info.bytes })
    assert.is_nil(info.managed)
    local types = a:types()
    assert.same({ "System.String", 481, 51243056, "Small", 481 },
      { types[1].type, types[1].events, types[1].bytes, types[1].kind, types[1].kinds.Small })
    assert.same({ "System.Byte[]", "Large", 50, 1 }, { types[4].type, types[4].kind, types[4].kinds.Large, types[4].kinds.Small })
    assert.is_nil(types[1].objects)
    local sites = a:top_methods { top = 4, rank_by = "bytes" }
    assert.same({ "System.String.Ctor(wchar,int32)", "Lunette.Target.Sites.MakeOrders()", "Lunette.Target.Sites.MakeNumbers()",
                  "Lunette.Target.Sites.MakeBlob()" }, methods(sites))
    assert.equal(10001200, sites[4].exclusive_bytes)
    assert.is_nil(sites[1].exclusive_ns)
    local tree = a:call_tree { by_bytes = true, max_nodes = 6 }
    assert.equal(100987552, tree.root.inclusive_bytes)
  end)

  it("of drawn objects tells how many they stand for", function()
    local a <close> = artifact_of("alloc.nettrace", { kind = "allocation", sampled = true })
    assert.equal(481, a:info().samples)
    local types = a:types()
    assert.equal("System.Byte[]", types[1].type)
    assert.is_true(types[1].objects > types[1].events)
  end)
end)

describe("a builder", function()
  it("is for one stream, whose end it waits for", function()
    local builder = assert(profile.new { kind = "cpu" })
    assert.equal("Conflict", select(2, builder:build()).kind)
    local source <close> = assert(events.open { path = RECORDINGS .. "cpu.zip", tap = builder })
    assert.has_error(function() events.open { path = RECORDINGS .. "cpu.zip", tap = builder } end)
    assert(source:next(60000) == nil and source:stop())
    assert(builder:build())
    assert.equal("Conflict", select(2, builder:build()).kind)
    builder:close()
    assert.has_error(function() builder:progress() end)
  end)

  it("may be let go while its stream goes on, and the stream while it is held", function()
    local pid = replay.start("--speed", "4")
    local builder = assert(profile.new { kind = "cpu" })
    local counters = { { name = "System.Runtime", args = "EventCounterIntervalSec=1" } }
    local source = assert(events.open { pid = pid, providers = counters, tap = builder })
    builder:close()
    loop.sleep_ms(50)
    assert.is_true(assert(source:stop(20000)).events > 0)
    local other = assert(profile.new { kind = "cpu" })
    local closed = assert(events.open { path = RECORDINGS .. "cpu.zip", tap = other })
    closed:close()
    other:close()
  end)

  it("tells which providers a live session needs", function()
    assert.same({ "Microsoft-DotNETCore-SampleProfiler", "Microsoft-Windows-DotNETRuntime" },
      { profile.providers { kind = "cpu" }[1].name, profile.providers { kind = "cpu" }[2].name })
    local ticks, drawn = profile.providers { kind = "allocation" }[1], profile.providers { kind = "allocation", sampled = true }[1]
    assert.same({ "0x39", 5, "0x80000000038", 4 }, { ticks.keywords, ticks.level, drawn.keywords, drawn.level })
    assert.same({ "0x138", "0x20138" }, { profile.RUNDOWN, profile.RUNDOWN_IL })
  end)

  it("needs options that make sense", function()
    for _, bad in ipairs { { kind = "heap" }, { waits = 7 }, { waits = { {} } }, { waits = { { name = "x" } } }, { max_bytes = -1 } } do
      assert.has_error(function() profile.new(bad) end)
    end
    assert.equal("OutOfMemory", select(2, profile.new { max_bytes = 10 }).kind)
    assert.has_error(function() events.open { path = RECORDINGS .. "cpu.zip", tap = {} } end)
  end)
end)

describe("operations across awaits", function()
  it("are put together as far as stacks tell", function()
    local a <close> = artifact_of("cpu.zip", { kind = "cpu" })
    local c <close> = assert(a:causality())
    local info = c:info()
    assert.same({ 5427, 75, 0, 0 }, { info.samples, info.joined, info.unseen, info.several })
    assert.is_nil(a:info().joined)
    local below = assert(c:match("Hot.Async(")[1])
    assert.equal(119 + 75, below.inclusive) -- it waits, and its method works on the pool meanwhile
    local tree = c:call_tree { root_frame = frame_of(c, "<WorkAsync>d__25.MoveNext()"), callers = true }
    assert.equal("Lunette.Target.Hot.Async(int64)", tree.root.children[1].method)
  end)
end)
