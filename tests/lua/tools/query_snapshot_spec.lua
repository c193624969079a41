-- SPDX-License-Identifier: MIT
local handles = require("lunette.handles")
local json = require("lunette.json")
local kinds = require("lunette.kinds")
local kit = require("support.framework_kit")
local sys = require("lunette.sys")
local view = require("lunette.view")

local query = assert(loadfile(sys.home .. "/lua/tools/query_snapshot.lua"))()

local EVERY_SCOPE <const> = { "root", "sensitive-heap-read", "sensitive-parameter-read" }

-- What the views of the specs saw last.
local seen

local function stub(kind, name, payload)
  return view { kind = kind, name = name, project = function(artifact, options, entry)
    seen = { artifact = artifact, options = options, entry = entry }
    return payload or { ok = true }
  end }
end

local function put(kind, more)
  local given = { kind = kind, artifact = { of = kind }, origin = "trace", process_id = 42, started_unix_ms = 1764484800000,
    duration_ms = 5250 }
  for k, v in pairs(more or {}) do given[k] = v end
  return handles.put(given)
end

describe("query_snapshot #unit", function()
  local real = {}

  before_each(function()
    seen = nil
    handles.clear()
  end)

  -- Views of the product that the specs replace come back afterwards.
  local function register(v)
    real[#real + 1] = { kind = v.kind, name = v.name, was = view.find(v.kind, v.name) or false }
    view.register(v)
  end
  after_each(function()
    for _ = #real, 1, -1 do
      local r = table.remove(real)
      if r.was then view.register(r.was) else view.forget(r.kind, r.name) end
    end
    handles.clear()
  end)

  it("wraps the view of a collection with kind, view, processId, startedAt and duration", function()
    register(stub("counters", "byProvider", { providers = json.array({}) }))
    local h = put("counters")
    local e = kit.call(query, { handle = h.id, view = "byProvider" })
    assert.same({
      kind = "counters", view = "byProvider", processId = 42, startedAt = "2025-11-30T06:40:00.000Z", duration = "00:00:05.2500000",
      payload = { providers = json.array({}) },
    }, e.data)
    assert.equal(h.artifact, seen.artifact)
  end)

  it("takes the default view of the kind", function()
    register(stub("gc-datas", "overview"))
    local e = kit.call(query, { handle = put("gc-datas").id })
    assert.equal("overview", e.data.view)
  end)

  it("takes the default view of every kind, by handle and by latestOfKind", function()
    for _, name in ipairs(kinds.base_names()) do
      local kind = kinds.get(name)
      register(stub(name, kind.default_view))
      local entry, answered = put(name), 0
      for _, arguments in ipairs { { handle = entry.id }, { latestOfKind = name } } do
        for option, declared in pairs(kind.views[kind.default_view].options) do
          if declared.required then arguments[option] = "1" end
        end
        local e = kit.call(query, arguments, kit.ctx { scopes = EVERY_SCOPE })
        assert.is_nil(e.error, name)
        assert.equal(entry, seen.entry, name)
        answered = answered + 1
      end
      assert.equal(2, answered)
    end
  end)

  it("both or neither of handle and latestOfKind: InvalidArgument", function()
    assert.equal("InvalidArgument", kit.call(query, {}).error.kind)
    assert.equal("handle", kit.call(query, {}).error.detail)
    local e = kit.call(query, { handle = "X", latestOfKind = "counters" })
    assert.equal("InvalidArgument", e.error.kind)
  end)

  it("latestOfKind finds the newest, of one process when asked; none is NotFound with a hint to its collector", function()
    register(stub("gc-events", "summary"))
    local a, b = put("gc-events", { process_id = 1 }), put("gc-events", { process_id = 2 })
    kit.call(query, { latestOfKind = "gc-events" })
    assert.equal(b, seen.entry)
    kit.call(query, { latestOfKind = "gc-events", latestOfKindProcessId = "1" })
    assert.equal(a, seen.entry)
    local e = kit.call(query, { latestOfKind = "heap-snapshot", latestOfKindProcessId = 9 })
    assert.equal("NotFound", e.error.kind)
    assert.equal("inspect_heap", e.hints[1].nextTool)
    assert.same({ source = "live", processId = 9 }, e.hints[1].suggestedArguments)
    e = kit.call(query, { latestOfKind = "counter" })
    assert.equal("latestOfKind", e.error.detail)
    assert.matches('Did you mean "counters"?', e.error.message, 1, true)
  end)

  it("dead handles give one of three kinds", function()
    local e, result = kit.call(query, { handle = "00000000000000000000" })
    assert.equal("HandleNotFound", e.error.kind)
    assert.is_nil(result.isError)
  end)

  it("accepts a handle in small letters, as people type it", function()
    register(stub("counters", "summary"))
    assert.is_nil(kit.call(query, { handle = put("counters").id:lower() }).error)
  end)

  it("an unknown view: InvalidArgument, detail view, with the accepted values, the nearest and a hint to the default", function()
    local h = put("gc-events")
    local e = kit.call(query, { handle = h.id, view = "heapstats" })
    assert.equal("InvalidArgument", e.error.kind)
    assert.equal("view", e.error.detail)
    assert.matches("summary, events, pauseHistogram, timeline, longestPauses, byGeneration, heap-stats, diff", e.error.message, 1, true)
    assert.matches('Did you mean "heap-stats"?', e.error.message, 1, true)
    assert.same({ handle = h.id, view = "summary" }, e.hints[1].suggestedArguments)
  end)

  it("an unknown view of any kind is InvalidArgument that lists the views of that kind", function()
    for _, name in ipairs(kinds.base_names()) do
      for _, view_name in ipairs { "no-such-view", kinds.get(name).default_view:upper() } do
        local e = kit.call(query, { handle = put(name).id, view = view_name }, kit.ctx { scopes = EVERY_SCOPE })
        assert.same({ "InvalidArgument", "view" }, { e.error.kind, e.error.detail }, name)
        for _, accepted in ipairs(kinds.get(name).view_names) do assert.is_truthy(e.error.message:find(accepted, 1, true), name) end
        assert.is_nil(e.data)
      end
    end
  end)

  it("has the topN of the contract where none is given", function()
    local wanted <const> = { ["off-cpu-snapshot"] = 25, ["cpu-sample"] = 20, ["allocation-sample"] = 20, ["native-alloc-sample"] = 20,
      ["native-lock-contention-sample"] = 20 }
    local checked = 0
    for _, name in ipairs(kinds.base_names()) do
      for _, view_name in ipairs(kinds.get(name).view_names) do
        local option = kinds.get(name).views[view_name].options.topN
        if option then
          local value = (view_name == "diff" or view_name == "growth") and 25 or view_name == "triage" and 5 or wanted[name] or 50
          assert.equal(value, option.default, name .. "/" .. view_name)
          checked = checked + 1
        end
      end
    end
    assert.is_true(checked > 80, checked)
  end)

  it("lets a bearer of a collection's scope in, and nobody who only passes the gate of the tool", function()
    local checked = 0
    for _, name in ipairs(kinds.base_names()) do
      local kind = kinds.get(name)
      if kind.wrapper == "CollectionQueryResult" and name ~= "method-params-capture" then
        register(stub(name, kind.default_view))
        local function denied(scope)
          local e = kit.call(query, { handle = put(name).id }, kit.ctx { scopes = { scope } })
          assert.is_true(e.error == nil or e.error.kind == "PermissionDenied", name)
          return e.error and e.error.detail
        end
        assert.is_nil(denied("eventpipe"), name)
        if name == "counters" then
          assert.is_nil(denied("read-counters"))
        else
          assert.equal("eventpipe", denied("read-counters"), name)
        end
        for _, other in ipairs { "heap-read", "ptrace" } do assert.is_string(denied(other), name) end
        checked = checked + 1
      end
    end
    assert.equal(21, checked)
  end)

  it("a view that nobody built: NotSupported that names it", function()
    local e = kit.call(query, { handle = put("kestrel-snapshot").id, view = "tls" })
    assert.equal("NotSupported", e.error.kind)
    assert.matches("tls", e.error.message, 1, true)
    assert.is_nil(e.data)
  end)

  it("a parameter outside its view is ignored, whatever it holds", function()
    register(stub("counters", "summary"))
    local e = kit.call(query, { handle = put("counters").id, topN = 0, mode = "nonsense", minDeltaPct = -4, gcHandle = "x" })
    assert.is_nil(e.error)
    assert.same({}, seen.options)
  end)

  it("gives a view its own options with the defaults of the contract", function()
    register(stub("exception-snapshot", "recent"))
    register(stub("cpu-sample", "triage"))
    register(stub("heap-snapshot", "top-types"))
    kit.call(query, { handle = put("exception-snapshot").id, view = "recent" })
    assert.same({ topN = 50 }, seen.options)
    kit.call(query, { handle = put("exception-snapshot").id, view = "recent", topN = "7" })
    assert.same({ topN = 7 }, seen.options)
    kit.call(query, { handle = put("cpu-sample").id, view = "triage" })
    assert.same({ topN = 5, hotPathThresholdPercent = 50 }, seen.options)
    kit.call(query, { handle = put("heap-snapshot").id })
    assert.same({ topN = 50, rankBy = "bytes" }, seen.options)
  end)

  it("topN below 1 is InvalidArgument in a view that has it", function()
    register(stub("exception-snapshot", "recent"))
    assert.equal("topN", kit.call(query, { handle = put("exception-snapshot").id, view = "recent", topN = 0 }).error.detail)
  end)

  it("a required option that is missing is InvalidArgument with its name", function()
    for _, row in ipairs({
      { "activities", "trace", "traceId" }, { "activities", "gc-overlay", "gcHandle" }, { "thread-snapshot", "stack", "threadId" },
      { "off-cpu-snapshot", "stack", "stackRank" }, { "cpu-sample", "caller-callee", "rootMethodFilter" },
    }) do
      register(stub(row[1], row[2]))
      assert.equal(row[3], kit.call(query, { handle = put(row[1]).id, view = row[2] }).error.detail, row[2])
    end
  end)

  it("rankBy nonsense on a heap and a zero address are InvalidArgument", function()
    register(stub("heap-snapshot", "top-types"))
    register(stub("heap-snapshot", "object"))
    local h = put("heap-snapshot")
    assert.equal("rankBy", kit.call(query, { handle = h.id, rankBy = "colour" }).error.detail)
    assert.is_nil(kit.call(query, { handle = h.id, rankBy = "instances" }).error)
    local e = kit.call(query, { handle = h.id, view = "object", address = "0x0" })
    assert.is_table(e.safetyApproval) -- high risk comes first
    e = kit.call(query, e.hints[1].suggestedArguments)
    assert.equal("address", e.error.detail)
  end)

  it("checks the scopes of the handle's kind", function()
    local function refused(kind, list, arguments)
      local given = { handle = put(kind).id }
      for k, v in pairs(arguments or {}) do given[k] = v end
      local e, result = kit.call(query, given, kit.ctx({ scopes = list }))
      local denied = e.error and e.error.kind == "PermissionDenied"
      if denied then assert.is_true(result.isError) end
      return denied and e.error.detail or false
    end
    assert.is_false(refused("counters", { "read-counters" }))
    assert.is_false(refused("counters", { "eventpipe" }))
    assert.equal("read-counters or eventpipe", refused("counters", { "ptrace" }))
    assert.equal("eventpipe", refused("gc-events", { "read-counters" }))
    assert.equal("heap-read", refused("heap-snapshot", { "eventpipe" }))
    assert.equal("ptrace", refused("thread-snapshot", { "eventpipe" }))
    assert.equal("heap-read", refused("thread-snapshot", { "ptrace" }, { view = "frame-vars" }))
    assert.equal("eventpipe", refused("off-cpu-snapshot", { "heap-read" }))
    assert.equal("investigation-export", refused("cpu-sample", { "eventpipe" }))
    assert.equal("sensitive-heap-read", refused("heap-snapshot", { "root" }, { view = "growth" }))
    assert.equal("sensitive-parameter-read", refused("method-params-capture", { "root" }))
    assert.is_false(refused("heap-snapshot", { "heap-read", "sensitive-heap-read" }, { view = "growth" }))
  end)

  it("a bug in a view is an error that names script and line", function()
    register(view { kind = "counters", name = "summary", project = function() return nil + 1 end })
    local e, result = kit.call(query, { handle = put("counters").id })
    assert.equal("Internal", e.error.kind)
    assert.matches("query_snapshot_spec.lua:%d+", e.error.message)
    assert.is_true(result.isError)
  end)

  it("does not send a question that was cut back to its own handle", function()
    local rows = json.array({})
    for i = 1, 4000 do rows[i] = { text = ("x"):rep(100) } end
    register(stub("cpu-sample", "by-module", { rows = rows }))
    local e, result = kit.call(query, { handle = put("cpu-sample").id, view = "by-module" })
    assert.is_true(#result.content[1].text <= 81920)
    assert.matches("Cut to fit: .* of 4000 rows%); narrow the question to see the rest", e.summary)
  end)

  it("puts the payload of heap, thread and off-CPU views into the member that the contract names", function()
    register(stub("heap-snapshot", "roots-by-kind", json.array({})))
    register(stub("thread-snapshot", "lock-graph", json.array({})))
    register(stub("off-cpu-snapshot", "byThread", json.array({})))
    register(stub("cpu-sample", "by-module", { rows = json.array({}) }))
    local e = kit.call(query, { handle = put("heap-snapshot").id, view = "roots-by-kind" })
    assert.same({ "trace", "roots-by-kind" }, { e.data.origin, e.data.view })
    assert.is_table(e.data.rootsByKind)
    assert.is_table(kit.call(query, { handle = put("thread-snapshot").id, view = "lock-graph" }).data.locks)
    assert.is_table(kit.call(query, { handle = put("off-cpu-snapshot").id, view = "byThread" }).data.threads)
    assert.same({ rows = json.array({}) }, kit.call(query, { handle = put("cpu-sample").id, view = "by-module" }).data)
  end)

  it("knows the 25 kinds and 139 views of the contract and 4 and 20 of its own, each with a default view and a collector", function()
    local n_views = 0
    assert.equal(29, #kinds.names())
    for _, name in ipairs(kinds.names()) do
      local kind = kinds.get(name)
      n_views = n_views + #kind.view_names
      assert.is_table(kind.views[kind.default_view], name)
      assert.is_string((kinds.collector(name)))
    end
    assert.equal(159, n_views)
  end)

  it("refuses to declare a view of an unknown kind or name", function()
    assert.has_error(function() view { kind = "counter", name = "summary", project = print } end)
    assert.has_error(function() view { kind = "counters", name = "summery", project = print } end)
    assert.has_error(function() view { kind = "counters", name = "summary" } end)
  end)
end)
