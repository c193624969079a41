-- SPDX-License-Identifier: MIT
-- No script of a site gives anybody more than the scopes that they hold, whatever it does with what it is handed.
local build = require("lunette.generation.build")
local context = require("lunette.mcp.context")
local declare = require("lunette.declare")
local generation = require("lunette.generation")
local handles = require("lunette.handles")
local kinds = require("lunette.kinds")
local kit = require("support.site_kit")
local run = require("lunette.mcp.run")
local scopes = require("lunette.scopes")
local site = require("lunette.site")

describe("power of site scripts #unit", function()
  local dir, was

  before_each(function()
    was = generation.newest()
    dir = kit.folder()
    kinds.use(generation.current)
  end)
  after_each(function() generation.use(was) end)

  local function load_site(files)
    for path, body in pairs(files) do kit.write(dir, path, body) end
    local g = build.build(site.named({ site.PRODUCT, dir }))
    generation.use(g)
    local list = {}
    for i, p in ipairs(g.problems) do list[i] = declare.format(p):gsub("^.-/(%l[%l-]+/[%w_-]+%.lua)", "%1") end
    return g, table.concat(list, "\n")
  end

  -- A call as the server makes it, of a token with these scopes.
  local function call(tool, principal, args)
    local ctx = context.new({ principal = principal, transport = "http", headers = { authorization = "Bearer t" } }, function() end)
    local kind, out = run.invoke(ctx, function(c, a) return tool:invoke(c, a) end, args or {})
    return kind == "result" and out or error(tostring(out))
  end

  local function tool(body, list)
    local g, problems = load_site { ["tools/mine.lua"] = ([[return tool { name = "mine", description = "d", scopes = { %s },
      run = function(ctx, args) %s end }]]):format(list or '"read-counters"', body) }
    assert.equal("", problems)
    return g.tools.mine
  end

  it("cannot write to the principal, nor to the context that holds it", function()
    local token = scopes.principal("t", { "read-counters" })
    local out = call(tool([[
      local p, refused = ctx.principal, 0
      for _, f in ipairs {
        function() p.scopes.eventpipe = true end, function() p.is_root = true end, function() rawset(p.scopes, "eventpipe", true) end,
        function() table.insert(p.scopes, "eventpipe") end, function() ctx.principal = { scopes = {}, is_root = true } end,
        function() rawset(ctx, "principal", 1) end, function() setmetatable(ctx, nil) end,
      } do if not pcall(f) then refused = refused + 1 end end
      local call, asker = tostring(ctx.call), tostring(ctx.asker)
      return { refused = refused, name = p.name, has = p.scopes["read-counters"], call = call, asker = asker }]]),
      token)
    assert.same({ refused = 7, name = "t", has = true, call = "nil", asker = "nil" }, out.data)
    assert.same({ ["read-counters"] = true }, token.scopes)
    assert.is_false(token.is_root)
  end)

  it("cannot lend a caller another's scopes by a context of its own", function()
    local low, ours = scopes.principal("low", { "read-counters" }), {}
    local ctx = context.new({ principal = low, transport = "http" }, function() end)
    run.invoke(ctx, function()
      ours.forged = scopes.has({ scopes = {}, is_root = true }, "eventpipe")
      ours.kept = scopes.has(scopes.principal("admin", { "root" }), "eventpipe")
      ours.own = scopes.has(low, "read-counters")
      return true
    end)
    assert.same({ forged = false, kept = false, own = true }, ours)
    assert.is_true(scopes.has(scopes.principal("admin", { "root" }), "eventpipe"), "outside of the call")
  end)

  it("cannot change what a kind of handle asks for", function()
    local before = kinds.get("gc-events").scopes
    call(tool([[
      local kind = require("lunette.kinds").get("gc-events")
      assert(not pcall(function() kind.scopes = {} end))
      assert(not pcall(function() kind.scopes.list[1] = nil end))
      assert(not pcall(rawset, kind, "scopes", {}))
      return {}]]), scopes.principal("t", { "read-counters" }))
    assert.equal(before, kinds.get("gc-events").scopes)
    assert.same({ "eventpipe" }, before.list)
  end)

  it("finds handles of those kinds only that its scopes open, and cannot change them", function()
    local heap = handles.put { kind = "heap-snapshot", artifact = { secret = 1 }, origin = "dump" }
    local gc = handles.put { kind = "gc-events", artifact = {}, origin = "trace" }
    local out = call(tool(([[
      local handles = require("lunette.handles")
      local ok, why = pcall(handles.get, %q)
      local ok2 = pcall(handles.latest, "heap-snapshot")
      local mine = handles.get(%q)
      mine.kind = "counters"
      return { ok = ok, ok2 = ok2, why = tostring(why), id = mine.id }]]):format(heap.id, gc.id), '"eventpipe"'),
      scopes.principal("t", { "eventpipe", "root" }))
    assert.is_false(out.data.ok)
    assert.is_false(out.data.ok2)
    assert.matches("heap-read", out.data.why, 1, true)
    assert.equal(gc.id, out.data.id)
    assert.equal("gc-events", gc.kind)
    handles.invalidate(heap.id)
    handles.invalidate(gc.id)
  end)

  -- What a site's view finds of a text of the target, with a flag of its own and whomever it says it asks for.
  local LOOKS <const> = [[
    return view { kind = "heap-snapshot", name = "%s", project = function(artifact, options, entry, ctx)
      local sensitive = require("lunette.sensitive")
      local rows = artifact.sections["duplicate-strings"].rows
      local seen = {}
      for k, v in pairs(rows[1]) do seen[#seen + 1] = tostring(k) .. "=" .. tostring(v) end
      local all = { is_root = true, scopes = { ["sensitive-heap-read"] = true, root = true } }
      local forged, why = pcall(sensitive.text, { principal = all }, true, rows, 1)
      return { row = table.concat(seen, " "), text = sensitive.text(ctx, true, rows, 1), forged = forged, why = tostring(why),
        hides = sensitive.hide ~= nil }
    end }]]

  it("shows no text of a heap to who may not see it, whatever a view asks for", function()
    local _, problems = load_site { ["views/heap-snapshot/mine.lua"] = LOOKS:format("mine"),
      ["views/heap-snapshot/duplicate-strings.lua"] = LOOKS:format("duplicate-strings") }
    assert.equal("", problems)
    local rows = { { preview = "Server=db;Password=hunter2", instanceCount = 3 } }
    require("lunette.sensitive").hide(rows, "preview")
    local entry = handles.put { kind = "heap-snapshot", origin = "dump", process_id = 1, started_unix_ms = 1, duration_ms = 1,
      artifact = { origin = "dump", sections = { ["duplicate-strings"] = { rows = rows } } } }
    local query = generation.current().tools.query_snapshot or require("tools.query_snapshot")
    local function asked(list, flag, name)
      local principal, args = scopes.principal("t", list),
        { handle = entry.id, view = name or "duplicate-strings", includeSensitiveValues = flag }
      local out = call(query, principal, args)
      if out.safetyApproval and not out.data then
        args._dotnetDiagnostics = { acknowledgement = out.safetyApproval.requiredAcknowledgement }
        out = call(query, principal, args)
      end
      assert.is_nil(out.error and out.error.message)
      return out.data.duplicateStrings or out.data
    end
    local seen = asked({ "root", "sensitive-heap-read" }, true)
    assert.same({ "instanceCount=3", "Server=db;Password=<redacted:sensitive>", false, false },
      { seen.row, seen.text, seen.forged, seen.hides })
    assert.matches("the ctx of the call", seen.why, 1, true)
    assert.equal("<redacted:metadata-only>", asked({ "root", "sensitive-heap-read" }, nil).text)
    assert.equal("<redacted:metadata-only>", asked({ "root" }, true).text)
    assert.equal("<redacted:metadata-only>", asked({ "root", "sensitive-heap-read" }, true, "mine").text) -- it has no such option
    handles.invalidate(entry.id)
  end)

  local PROGRAM <const> = [[program = {
    providers = { { name = "A", level = 4 } }, events = { a = "A/B" }, keep = { n = require("lunette.probe").count() },
  }]]

  it("opens no event session for who may not: a program asks for eventpipe", function()
    for _, list in ipairs { '"read-counters"', "", 'semantics = "any", list = { "eventpipe", "read-counters" }' } do
      local _, problems = load_site { ["collectors/cheap.lua"] =
        ('return collector { kind = "cheap",\nscopes = { %s }, %s }'):format(list, PROGRAM) }
      assert.matches("collectors/cheap.lua:2: a program opens an event session: it asks for the scope eventpipe", problems, 1, true)
    end
  end)

  it("shows no capture to who could not have made it", function()
    local _, problems = load_site { ["collectors/cheap.lua"] =
      ('return collector { kind = "cheap", handle = { name = "cheap",\nscopes = { "read-counters" } }, %s }'):format(PROGRAM) }
    assert.matches("collectors/cheap.lua:2: handle.scopes: must ask for at least the scopes of the collector", problems, 1, true)
  end)

  it("does not tell less risk of what lies beneath", function()
    local base = [[return tool { name = "mine", description = "d", risk = "high", run = function() return {} end }]]
    local lower = kit.folder()
    kit.write(lower, "tools/mine.lua", base)
    local function over(body)
      kit.write(dir, "tools/mine.lua", body)
      local g = build.build(site.named({ site.PRODUCT, lower, dir }))
      return #g.problems > 0 and g.problems[1].path or nil, g.tools.mine.only.static.riskLevel
    end
    assert.same({ "risk", "high" }, { over('return extend(..., { risk = "low" })') })
    assert.same({ "risk", "high" }, { over('return extend(..., { risk = function() return "low" end, max_risk = "high" })') })
    assert.same({ nil, "critical" }, { over('return extend(..., { risk = "critical" })') })
    assert.same({ nil, "high" }, { over('return extend(..., { description = "other" })') })
  end)

  describe("files", function()
    local secret = "/etc/hostname"

    it("are neither read nor written by way of the events", function()
      local out = call(tool(([[
        local probe, events = require("lunette.probe"), require("lunette.events")
        local program = assert(probe.program {
          name = "p", providers = { { name = "A", level = 4 } }, events = { a = "A/B" }, keep = { n = probe.count() },
        })
        local told = {}
        for i, f in ipairs {
          function() return events.open { path = %q } end, function() return probe.run(ctx, program, { path = %q, duration_ms = 1 }) end,
          function() return events.open { pid = 1, save_to = "/tmp/none" } end,
          function() return events.open(setmetatable({ pid = 1 }, { __index = { path = %q } })) end,
        } do
          local ok, why = pcall(f)
          told[i] = ok and "opened" or tostring(why):gsub("^.-:%%d+: ", "")
        end
        return told]]):format(secret, secret, secret), '"eventpipe"'), scopes.principal("t", { "eventpipe" }))
      assert.matches("path must be one that lunette.collector.source", out.data[1], 1, true)
      assert.matches("path must be one that lunette.collector.source", out.data[2], 1, true)
      assert.matches("save_to is not available", out.data[3], 1, true)
    end)

    it("that a collector names itself are not opened", function()
      local _, problems = load_site { ["collectors/mine.lua"] = ([[return collector { kind = "mine",
        source = function() return { path = %q } end, %s }]]):format(secret, PROGRAM) }
      assert.equal("", problems)
      local out = call(generation.current().tools.collect_events, scopes.principal("t", { "eventpipe" }), { kind = "mine" })
      assert.matches("source must give a path that lunette.collector.source(ctx, args) gave in this call", out.error.message, 1, true)
    end)
  end)

  it("gives no function of its own to be run outside of its limits", function()
    local _, problems = load_site { ["collectors/mine.lua"] = [[
      return collector { kind = "mine", source = function() return {} end,
        collect = function() return { close = function() while true do end end } end,
        inline = function() return {} end, summary = "x" }]] }
    assert.equal("", problems)
    local out = call(generation.current().tools.collect_events, scopes.principal("t", { "eventpipe" }), { kind = "mine" })
    assert.is_string(out.handle)
    handles.invalidate(out.handle) -- would never come back
    assert.is_nil(handles.peek(out.handle))
  end)

  it("does nothing to a call with results that are none but fail it, with the script's name", function()
    local odd = {
      ["return print"] = "cannot encode data", ["return {}, 5"] = "the second result must be a table, not a number",
      ["return {}, { summary = print }"] = "the summary must be a text, not a function",
      ["return {}, { hints = 'x' }"] = "hints must be a list, not a string",
      ["return {}, { hints = { { tool = 'x' } } }"] = "hints[1] is no hint: make it with hints.new",
      ["return {}, { signals = { 5 } }"] = "signals[1] is no signal: {",
      ["return {}, { handle = { id = 'x' } }"] = "handle must be what lunette.handles",
      ["return {}, { process = { pid = 'x' } }"] = "process must be what process.resolve",
      ["return {}, { hints = { 1 } }"] = "hints[1] is no hint",
      ["return {}, { process = 7 }"] = "process must be what process.resolve",
      ["local t = {} t.t = t return t"] = "failed: ", ["return { [1.5] = print }"] = "cannot",
    }
    for body, says in pairs(odd) do
      local out = call(tool(body), scopes.principal("t", { "read-counters" }))
      assert.equal("Internal", out.error and out.error.kind, body)
      assert.matches(says, out.error.message, 1, true)
      assert.is_nil(out.error.message:find("lua/lunette/", 1, true), out.error.message)
    end
  end)
end)
