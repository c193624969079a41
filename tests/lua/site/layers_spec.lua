-- SPDX-License-Identifier: MIT
-- What a folder of site scripts adds, replaces, extends and takes out, and how mistakes in it are told.
local app = require("lunette.app")
local build = require("lunette.generation.build")
local declare = require("lunette.declare")
local gate = require("lunette.source_gate")
local generation = require("lunette.generation")
local kinds = require("lunette.kinds")
local kit = require("support.site_kit")
local loop = require("lunette.loop")
local redaction = require("lunette.redaction")
local registry = require("lunette.registry")
local reload = require("lunette.generation.reload")
local site = require("lunette.site")
local view = require("lunette.view")
local watch = require("lunette.watch")

local RECORDING <const> = require("lunette.sys").home .. "/tests/data/recordings/source.nettrace"

local dir, layers

local function write(path, body) kit.write(dir, path, body) end

-- The generation of the folder, put in place.
local function load_site(before)
  local g = build.build(layers, before)
  generation.use(g)
  return g
end

local function lines(g)
  local list = {}
  for i, p in ipairs(g.problems) do list[i] = declare.format(p):gsub("^" .. dir:gsub("%p", "%%%0") .. "/", "") end
  return list
end

local function one_line(path, body)
  write(path, body)
  local list = lines(load_site())
  os.remove(dir .. "/" .. path)
  return table.concat(list, "\n")
end

describe("site scripts #unit", function()
  local was

  before_each(function()
    was = generation.newest()
    dir = kit.folder()
    layers = site.named({ site.PRODUCT, dir })
    kinds.use(generation.current)
  end)
  after_each(function() generation.use(was) end)

  describe("add", function()
    it("a tool, which runs", function()
      write("tools/hello.lua", 'return tool { name = "hello", description = "d", run = function(_, args) return { x = 1 } end }')
      local g = load_site()
      assert.same({}, lines(g))
      assert.same({ x = 1 }, (g.tools.hello:invoke({ principal = { scopes = {} } }, {})).data)
    end)

    it("a collector with a kind of handle and views of its own", function()
      write("collectors/demo.lua", [[
        local probe = require "lunette.probe"
        return collector {
          kind = "demo-orders", description = "Orders of the demo.", params = { { "minMs", "int", default = 0, note = "Least time." } },
          program = {
            name = "demo", providers = { { name = "Lunette-Live", level = 5 } }, events = { all = "*/*" },
            keep = { events = probe.count { on = "all" } },
          },
          summary = "{events} events in {duration_s} s.",
        }
      ]])
      write("views/demo-orders/summary.lua", [[
        return view { kind = "demo-orders", name = "summary", options = { "topN:7" },
          project = function(artifact, opts) return { events = artifact.events, top = opts.topN } end }
      ]])
      local g = load_site()
      assert.same({}, lines(g))
      local tool = g.tools.collect_events
      local words = tool.params.by_name.kind.enum
      assert.equal("demo-orders", words[#words])
      assert.is_true(tool.params.by_name.traceFilePath.applies["demo-orders"])
      assert.is_true(tool.params.by_name.minMs.applies["demo-orders"])
      assert.is_nil(tool.params.by_name.minMs.applies.counters)
      local kind = kinds.get("demo-orders")
      assert.same({ "summary", 7 }, { kind.default_view, kind.views.summary.options.topN.default })
      assert.same({ "eventpipe" }, kind.scopes.list)
      local ctx = {
        principal = { scopes = { root = true }, is_root = true }, transport = "cli", progress = function() end, can = function() end,
      }
      local envelope = tool:invoke(ctx, { kind = "demo-orders", traceFilePath = RECORDING })
      assert.is_nil(envelope.error)
      local n = envelope.data["demo-orders"].events
      assert.is_true(n > 10)
      assert.matches(("^%d events in "):format(n), envelope.summary)
      local answer = g.tools.query_snapshot:invoke(ctx, { handle = envelope.handle })
      assert.same({ events = n, top = 7 }, answer.data.payload)
    end)

    it("redaction patterns, names of event sources, and a prompt with what is installed", function()
      write("redaction/cards.lua", 'return redaction { patterns = { "CARD-[0-9]{4}" } }')
      write("event-sources/ours.lua", 'return event_sources { names = { "Acme-Orders" } }')
      write("playbooks/orders.md", "---\ntitle: T\ndescription: D\narguments:\n  processId: The process.\n---\n"
        .. "{{#processId}}Of {{processId}}. {{/processId}}Views: {{views:counters}}.\nCall inspect_process(view=\"list\").\n")
      local g = load_site()
      assert.same({}, lines(g))
      assert.equal("paid with " .. redaction.SENSITIVE, redaction.redact("paid with CARD-1234"))
      assert.is_false(gate.decide(nil, "acme-orders", false).unsafe)
      local text = require("lunette.playbooks").render(g.prompts.orders, { processId = "7" })
      assert.equal("Of 7. Views: summary, byProvider, diff.\nCall inspect_process(view=\"list\").\n", text)
    end)
  end)

  describe("replace", function()
    it("collect_events only by one that has its kinds, whatever else is broken", function()
      write("tools/collect_events.lua", 'return tool { name = "collect_events", description = "d", run = function() return {} end }')
      write("collectors/mine.lua", [[
        local probe = require "lunette.probe"
        return collector {
          kind = "mine", description = "d", summary = "{n} events.",
          program = { name = "mine", providers = { { name = "A", level = 4 } }, events = { a = "A/*" }, keep = { n = probe.count() } },
        }
      ]])
      local g = load_site()
      assert.equal(1, #lines(g))
      assert.matches('^tools/collect_events.lua:1: collect_events chooses by "kind"', lines(g)[1])
      assert.is_table(g.tools.collect_events.branches.counters) -- ours serves on
      assert.is_table(g.tools.collect_events.branches.mine)
    end)

    it("a view of ours, and what they extend keeps its other fields", function()
      write("views/counters/summary.lua", [[
        local base = ...
        local project = base.project
        return extend(base, { project = function(artifact) return { mine = artifact.n, had = project ~= nil } end })
      ]])
      local g = load_site()
      assert.same({}, lines(g))
      assert.same({ mine = 3, had = true }, view.find("counters", "summary").project({ n = 3 }))
      assert.is_true(g.units["views/counters/summary"].site)
    end)

    it("lists, and merge tables; a function for a field of data gets the old value", function()
      write("lib/words.lua", 'return { more = "more" }')
      write("event-sources/ours.lua", 'return event_sources { names = { "A" }, note = "n" }')
      local upper = kit.folder()
      kit.write(upper, "lib/words.lua", 'return { more = "B" }')
      kit.write(upper, "event-sources/ours.lua", [[
        local base = ...
        return extend(base, { names = function(old) old[#old + 1] = require("site.words").more return old end })
      ]])
      layers = site.named({ site.PRODUCT, dir, upper })
      local g = load_site()
      assert.same({}, lines(g))
      assert.same({ names = { "A", "B" }, note = "n" }, g:find("event-sources/ours"))
    end)

    it("take out what is ours, with the reason", function()
      write("playbooks/slow-application.md", "---\ntitle: Mine\ndescription: D\n---\nx\n")
      write("tools/query_snapshot.lua", 'return disable "nobody asks here"')
      local g = load_site()
      assert.is_nil(g.tools.query_snapshot)
      assert.equal("disabled", g.units["tools/query_snapshot"].state)
      assert.equal("nobody asks here", g.units["tools/query_snapshot"].reason)
    end)
  end)

  describe("that are broken", function()
    it("are told with file, line, what was expected and what was meant", function()
      local TOOL <const> = 'name = "a", description = "d"'
      local PLAYBOOK <const> = "---\ntitle: T\ndescription: D\n---\n"
      local cases = {
        { "tools/a.lua", "return tool {\n  " .. TOOL .. ",\n  prams = {},\n  run = function() end,\n}",
          'tools/a.lua:3: there is no field "prams" in a tool. Did you mean "params"?' },
        { "tools/a.lua", "return tool {\n " .. TOOL .. ', run = function() end,\n  params = {\n    { "n", "int", defalt = 1 },\n  },\n}',
          'tools/a.lua:4: there is no field "defalt" in params[1]. Did you mean "default"?' },
        { "tools/a.lua", 'local t = tool {\n  name = 7, description = "d", run = print }\nreturn t', "tools/a.lua:2: name: must be text" },
        { "tools/a.lua", "return tool { " .. TOOL .. " }", "tools/a.lua:1: needs either run or missing" },
        { "tools/a.lua", "return tool { " .. TOOL .. ', scopes = { "eventpip" }, run = print }',
          'there is no scope "eventpip". Did you mean "eventpipe"?' },
        { "tools/a.lua", "return nonsense.x", "tools/a.lua:1: " },
        { "tools/a.lua", "return 1 +", "tools/a.lua:1: " },
        { "tools/a.lua", "return 7", "must return tool { … }" },
        { "tools/a.lua", 'local t = { name = "a" } t.t = t return tool(t)', "a declaration may hold at most 20000 values, nested 40 deep" },
        { "tools/a.lua", 'return redaction { patterns = { "x" } }', "this is a redaction: it belongs into redaction/" },
        { "views/countres/x.lua", 'return view { kind = "countres", name = "x", project = function() end }',
          'there is no kind of handle "countres". Did you mean "counters"?' },
        { "views/counters/x.lua", 'return view { kind = "counters", name = "y", project = function() end }',
          'views/counters/x.lua:1: this file is x.lua, so the name of the view is "x"' },
        { "redaction/a.lua", 'return redaction { patterns = {\n  "ok",\n  "(" } }', "redaction/a.lua:3: patterns[2]: is no POSIX" },
        { "collectors/a.lua", 'return collector { kind = "a", program = {}, }', "collectors/a.lua:1: program: " },
        { "collectors/a.lua", 'return collector { kind = "a", takes = { "maxRecnt" }, collect = print }', 'Did you mean "maxRecent"?' },
        { "tools/a.lua", 'local p = require "lunette.probe"\nreturn tool { ' .. TOOL .. ",\n  run = function(c) return p.run(c) end }",
          "tools/a.lua:3: lunette.probe.run asks for the scope eventpipe" },
        { "collectors/gc.lua", "local base = ...\nreturn extend(base, {\n  scopes = {},\n})",
          "collectors/gc.lua:3: scopes: must ask for at least what the declaration beneath asks for" },
        { "tools/collect_events.lua",
          'return extend(..., { scopes = { list = { "read-counters", "eventpipe", "ptrace" }, semantics = "any" } })',
          "tools/collect_events.lua:1: scopes: must ask for at least" },
        { "playbooks/a.md", "---\ntitle: T\ndescrption: D\n---\nx",
          'playbooks/a.md:3: the header has no "descrption". Did you mean "description"?' },
        { "playbooks/a.md", PLAYBOOK .. "one\n{{pdi}}", 'playbooks/a.md:6: there is no argument "pdi". Did you mean "pid"?' },
        { "playbooks/a.md", PLAYBOOK .. "{{#pid}}x", "playbooks/a.md:5: {{#pid}} has no {{/pid}}" },
        { "playbooks/a.md", PLAYBOOK .. "\ncollect_events(knd=\"gc\")", 'collect_events has no parameter "knd". Did you mean "kind"?' },
        { "playbooks/a.md", PLAYBOOK .. "collect_events(kind=\"exceptons\")", 'has no kind "exceptons". Did you mean "exceptions"?' },
        { "playbooks/a.md", PLAYBOOK .. "colect_events()", 'there is no tool colect_events. Did you mean "collect_events"?' },
      }
      for _, case in ipairs(cases) do assert.matches(case[3], one_line(case[1], case[2]), 1, true) end
    end)

    it("leave the last good version in place, else what lies beneath", function()
      write("views/counters/summary.lua", "return view {")
      local g = load_site()
      local unit = g.units["views/counters/summary"]
      assert.same({ "broken", "beneath" }, { unit.state, unit.serving })
      assert.equal("counters", view.find("counters", "summary").kind)
      write("views/counters/summary.lua", 'return view { kind = "counters", name = "summary", project = function() return { v = 1 } end }')
      g = load_site(g)
      assert.same({ v = 1 }, view.find("counters", "summary").project({}))
      write("views/counters/summary.lua", "return view { kind = 1 }")
      g = load_site(g)
      assert.equal("last good", g.units["views/counters/summary"].serving)
      assert.same({ v = 1 }, view.find("counters", "summary").project({}))
    end)
  end)

  describe("that fail while they run", function()
    local ctx = {
      principal = { scopes = { root = true }, is_root = true }, transport = "cli", progress = function() end,
      can = function() return false end,
    }
    local function call(name, arguments) return generation.newest().tools[name]:invoke(ctx, arguments) end

    it("cost their call: an error with file and line, and the next call is answered", function()
      write("tools/a.lua", 'return tool {\n  name = "a", description = "d",\n  run = function(_, args)\n    return { x = args.n.y } end,\n'
        .. '  params = { { "n", "int?" } } }')
      assert.same({}, lines(load_site()))
      local e = call("a", {})
      assert.is_string(e.error.kind)
      assert.matches("attempt to index a nil value", e.error.message, 1, true)
      assert.matches("tools/a.lua:4", e.error.message, 1, true)
      assert.is_string(call("a", {}).error.kind)
    end)

    it("a risk that cannot be told is the highest, scopes that cannot be told let nobody in", function()
      write("tools/a.lua", [[return tool { name = "a", description = "d", risk = function() error("x") end, max_risk = "high",
        run = function() return { done = true } end }]])
      write("tools/b.lua", [[return tool { name = "b", description = "d", call_scopes = function() error("x") end,
        run = function() return { done = true } end }]])
      assert.same({}, lines(load_site()))
      assert.is_table(call("a", {}).safetyApproval)
      assert.is_nil(call("b", {}).data)
      assert.is_string(call("b", {}).error.kind)
    end)

    it("a collector that gives nothing says why", function()
      write("collectors/none.lua", [[return collector { kind = "none", source = function() return {} end,
        collect = function() return nil, { kind = "NotSupported", message = "no" } end }]])
      write("collectors/odd.lua", [[return collector { kind = "odd", source = function() return {} end,
        collect = function() return {} end, inline = function() error("bad") end }]])
      assert.same({}, lines(load_site()))
      assert.equal("no", call("collect_events", { kind = "none" }).error.message)
      assert.matches("collectors/odd.lua:2", call("collect_events", { kind = "odd" }).error.message, 1, true)
    end)
  end)

  describe("are read again", function()
    it("only where something changed, and what requires it", function()
      write("lib/words.lua", 'return { word = "one" }')
      write("tools/a.lua", 'local w = require "site.words"\n'
        .. 'return tool { name = "a", description = w.word, run = function() return {} end }')
      write("tools/b.lua", 'return tool { name = "b", description = "d", run = function() return {} end }')
      local first = load_site()
      assert.equal(2, first.n_run)
      local second = load_site(first)
      assert.equal(0, second.n_run)
      assert.equal(first.tools.a, second.tools.a)
      write("lib/words.lua", 'return { word = "another" }')
      local third = load_site(second)
      assert.same({ 1, "another" }, { third.n_run, third.tools.a.description })
      assert.equal(first.tools.b, third.tools.b)
      assert.equal(first.tools.collect_events, third.tools.collect_events)
      assert.equal("one", first.tools.a.description)
    end)

    it("when a file is written twice within one tick of the clock, and not when it is only touched", function()
      local function body(word) return ('return tool { name = "a", description = %q, run = function() return {} end }'):format(word) end
      write("tools/a.lua", body("one"))
      os.execute(("cp -p '%s/tools/a.lua' '%s/ref'"):format(dir, dir))
      local fresh_ms = site.FRESH_MS
      site.FRESH_MS = 3600000 -- the file counts as written a moment ago, however slow this machine is
      local g = load_site()
      write("tools/a.lua", body("two"))
      os.execute(("touch -r '%s/ref' '%s/tools/a.lua'"):format(dir, dir)) -- same size, same time
      site.FRESH_MS = 0 -- and now that moment is over
      g = load_site(g)
      site.FRESH_MS = fresh_ms
      assert.same({ 1, "two" }, { g.n_run, g.tools.a.description })
      os.execute(("touch '%s/tools/a.lua'"):format(dir))
      local touched = load_site(g)
      assert.same({ 0, g.tools.a }, { touched.n_run, touched.tools.a })
    end)

    it("by looking, where folders cannot be watched", function()
      local function body(word) return ('return tool { name = "a", description = %q, run = function() return {} end }'):format(word) end
      write("tools/a.lua", body("one"))
      load_site()
      local new_watch, poll_ms = watch.new, reload.POLL_MS
      watch.new, reload.POLL_MS = function() return nil, { kind = "LimitExceeded" } end, 10
      local own = registry.new()
      local task = reload.start(own)
      write("tools/a.lua", body("another"))
      kit.eventually("the change", function() return generation.newest().tools.a.description == "another" end)
      task:cancel("enough")
      task:await()
      watch.new, reload.POLL_MS = new_watch, poll_ms
      assert.equal("another", own.tool("a").description)
    end)

    it("with the units that have not changed taken over whole, but for playbooks when something that they may name changed", function()
      local tool = 'return tool { name = %q, description = %q, run = function() return {} end }'
      local fresh_ms = site.FRESH_MS
      site.FRESH_MS = 0 -- no file is looked at once more because it was written a moment ago
      loop.on_cleanup(function() site.FRESH_MS = fresh_ms end)
      write("tools/a.lua", tool:format("my_tool", "d"))
      write("tools/b.lua", tool:format("b", "d"))
      write("rules/r.lua", [[return rule { name = "x.r", input = { counter = "X/y" }, levels = { elevated = 1 }, summary = "s",
        rationale = "r" }]])
      write("playbooks/p.md", "---\ntitle: T\ndescription: D\n---\nCall my_tool().\n")
      local first = load_site()
      assert.same({}, lines(first))
      write("tools/b.lua", tool:format("b", "something else"))
      local second = load_site(first)
      assert.equal(first.units["tools/a"], second.units["tools/a"])
      assert.equal(first.units["rules/r"], second.units["rules/r"])
      assert.not_equal(first.units["tools/b"], second.units["tools/b"])
      os.remove(dir .. "/tools/a.lua")
      local third = load_site(second) -- the playbook's file is the same, and now it is wrong
      assert.same({ "playbooks/p.md:5: there is no tool my_tool." }, { (lines(third)[1]:gsub(" Did you mean.*", "")) })
      assert.equal("broken", third.units["playbooks/p"].state)
      assert.same({}, lines(second)) -- and what was, stays
    end)

    it("with all that collectors make kinds for looked at again when one of them is gone", function()
      write("collectors/orders.lua", [[return collector { kind = "orders", source = function() return {} end, collect = function() end }]])
      write("views/orders/all.lua", 'return view { kind = "orders", name = "all", project = function() return {} end }')
      local first = load_site()
      assert.same({}, lines(first))
      os.remove(dir .. "/collectors/orders.lua")
      local second = load_site(first)
      assert.matches("views/orders/all.lua:1: there is no kind of handle", lines(second)[1], 1, true)
      assert.same({}, lines(first))
    end)

    it("with a name that two tools want told, and forgotten when one lets it go", function()
      local tool = 'return tool { name = %q, description = "d", run = function() return {} end }'
      write("tools/a.lua", tool:format("a"))
      local first = load_site()
      write("tools/b.lua", tool:format("a"))
      local second = load_site(first)
      assert.same({ "tools/b.lua:1: there is already a tool a, of tools/a" }, { (lines(second)[1]:gsub(": name:", ":")) })
      assert.same({}, first.units["tools/a"].problems)
      write("tools/b.lua", tool:format("b"))
      assert.same({}, lines(load_site(second)))
    end)
  end)

  it("a call keeps its generation, and so do the tasks that it spawns", function()
    local first = load_site()
    local seen = generation.pinned(function()
      generation.use(build.build(layers, first))
      return { generation.current().number, loop.spawn(function() return generation.current().number end):await() }
    end)
    assert.same({ first.number, first.number }, seen)
    assert.equal(first.number + 1, generation.current().number)
  end)

  it("the layers: of the machine, of the user, of the configuration, of the command line; each folder once", function()
    local cfg = { get = function(_, key) return key == "LUNETTE_SITE" and "/a:/b/" or key == "LUNETTE_SCRIPTS" and "/c" or nil end }
    local list = {}
    for i, layer in ipairs(site.layers(cfg, { "/a", "/d" })) do list[i] = layer.dir end
    assert.equal("/etc/lunette", list[1])
    assert.same({ "/b", "/c", "/a", "/d" }, { table.unpack(list, #list - 3) })
  end)

  it("app.load tells of named folders that are not there", function()
    local loaded = app.load({ layers = { "/nonexistent/site" } })
    assert.same({ "there is no folder /nonexistent/site" }, loaded.failures)
    app.load({})
  end)
end)
