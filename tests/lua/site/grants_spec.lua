-- SPDX-License-Identifier: MIT
-- What site scripts are given of the framework beyond what is pure: calls of other tools, clean-up, signals and thresholds, measuring.
local build = require("lunette.generation.build")
local context = require("lunette.mcp.context")
local declare = require("lunette.declare")
local generation = require("lunette.generation")
local kinds = require("lunette.kinds")
local kit = require("support.site_kit")
local loop = require("lunette.loop")
local run = require("lunette.mcp.run")
local scopes = require("lunette.scopes")
local site = require("lunette.site")
local sys = require("lunette.sys")

local RECORDING <const> = sys.home .. "/share/shop.nettrace"

describe("site scripts are given #unit", function()
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
    return g, g.problems[1] and declare.format(g.problems[1]) or ""
  end

  -- Calls the tool `mine` with this body of run(ctx, args).
  local function call(body, options)
    options = options or {}
    local list = options.scopes or { "eventpipe", "read-counters" }
    local quoted = {}
    for i, s in ipairs(list) do quoted[i] = ("%q"):format(s) end
    local g, problem = load_site { ["tools/mine.lua"] = ([[
      local fanout, loop, json = require "lunette.fanout", require "lunette.loop", require "lunette.json"
      return tool { name = "mine", description = "d", risk = %q, scopes = { list = { %s } }, run = function(ctx, args) %s end }]])
      :format(options.risk or "low", table.concat(quoted, ", "), body) }
    assert.equal("", problem)
    local ctx = context.new({ principal = scopes.principal("t", options.has or list), transport = "cli" }, function() end)
    local _, out = run.invoke(ctx, function(c, a) return g.tools.mine:invoke(c, a) end, {})
    return out
  end

  local CALL <const> = ([[
    local one, err = fanout.prepare(ctx, "collect_events", { kind = "counters", traceFilePath = %q })
    if not one then return nil, err end
    local refused = not pcall(function() one.arguments.traceFilePath = "x" end)
    local results = assert(fanout.run(ctx, { one }))
    local r = results[1]
    if r.error then return nil, r.error end
    local written = pcall(function() r.extras.handle.artifact.n = 1 end) or pcall(function() r.data.x = 1 end)
    return { kind = r.extras.handle.kind, risk = one.safety.riskLevel, refused = refused, written = written,
      has = #r.extras.handle.artifact.counters > 0, summary = r.extras.summary }]]):format(RECORDING)

  it("calls of other tools, with the caller's rights", function()
    local out = call(CALL)
    assert.is_nil(out.error and out.error.message)
    assert.same({ kind = "counters", risk = "low", refused = true, written = false, has = true, summary = out.data.summary }, out.data)
  end)

  it("no call that the caller may not make, nor one of a higher risk than the script tells", function()
    local out = call(CALL:gsub('"counters"', '"event_source", providerName = "Acme-Secret"'), { scopes = { "read-counters" } })
    assert.is_string(out.error and out.error.kind)
    out = call([[fanout.prepare(ctx, "collect_events", { kind = "gc", induce = true, processId = 1 }) return {}]])
    assert.matches("has the risk %a+; a script that makes it declares as much", out.error.message)
    out = call([[fanout.prepare({ principal = ctx.principal }, "collect_events", { kind = "gc" }) return {}]])
    assert.matches("the first argument is the ctx of the call", out.error.message)
    out = call([[fanout.run(ctx, { { tool = "x" } }) return {}]])
    assert.matches("a list of what fanout.prepare gave", out.error.message)
  end)

  it("clean-up that runs when the call has ended, under the script's limits", function()
    local g = load_site { ["tools/mine.lua"] = [[
      local loop, done = require "lunette.loop", 0
      return tool { name = "mine", description = "d", run = function()
        loop.on_cleanup(function() done = done + 1 end)
        loop.on_cleanup(function() while true do end end)
        return { done = done }
      end }]] }
    local function invoke()
      return loop.spawn(function() return g.tools.mine:invoke({ principal = { scopes = {} } }, {}) end):await().data.done
    end
    assert.equal(0, invoke())
    assert.equal(1, invoke())
    assert.equal("ok", g.units["tools/mine"].state)
  end)

  it("functions for each event under their limits, those of a program that is made for the call, too", function()
    local PROGRAM <const> = [[{ name = "mine", providers = { { name = "Contoso-Shop", level = 5 } }, events = { e = "*/*" },
      keep = { n = probe.count(), seen = probe.each(function(row) %s end, { t = "@time" }) } }]]
    local ATTACKS <const> = {
      { "while true do end", "failed 1 times, and was not called for 350 more rows: .*CPU budget" },
      { "local t = {} while true do t[#t + 1] = {} end", "failed 1 times, and was not called for 350 more rows: .*in one piece" },
      { "error('bad row')", "failed 351 times: .*bad row" },
    }
    for _, form in ipairs { "%s", "function() return %s end" } do
      for _, attack in ipairs(ATTACKS) do
        local g, problem = load_site { ["collectors/mine.lua"] = ([[
          local probe = require "lunette.probe"
          return collector { kind = "mine", program = %s }]]):format(form:format(PROGRAM:format(attack[1]))) }
        assert.equal("", problem)
        local ctx = context.new({ principal = scopes.principal("t", { "eventpipe" }), transport = "cli" }, function() end)
        local _, out = run.invoke(ctx, function(c, a) return g.tools.collect_events:invoke(c, a) end,
          { kind = "mine", traceFilePath = RECORDING })
        assert.is_nil(out.error)
        assert.equal(351, out.data.mine.n)
        assert.matches("EachFailed: the function of each%(%) " .. attack[2], table.concat(out.data.mine.notes, " "))
        assert.matches("Each() of mine failed and is missing here", out.summary, 1, true)
      end
    end
  end)

  it("no way to call themselves for ever", function()
    local fanout = require("lunette.fanout")
    local real, made = fanout.tool, 0
    finally(function() fanout.tool = real end)
    fanout.tool = function(name)
      made = made + 1
      return generation.current().tools[name]
    end
    local out = call([[
      local calls = {}
      for i = 1, 8 do
        local one, err = fanout.prepare(ctx, "mine", {})
        if not one then return nil, err end
        calls[i] = one
      end
      local results, err = fanout.run(ctx, calls)
      if not results then return nil, err end
      local n, why = 0, nil
      for _, r in ipairs(results) do
        n = n + (r.data and r.data.n or 1)
        why = why or r.error and r.error.message or r.data and r.data.why
      end
      return { n = n, why = why }]])
    assert.matches("at most 64 calls of other tools, 3 inside each other", out.data.why, 1, true)
    assert.is_true(out.data.n <= 64 and made <= 8 * 65, out.data.n .. " calls")
  end)

  it("no way to change the budget of the task", function()
    local out = call([[loop.set_budget(0) local n = 0 for i = 1, 100000 do n = n + i end return { n = n }]])
    assert.equal(5000050000, out.data.n)
  end)

  it("steps that no other task interrupts, thresholds and signals to be read, and what is remembered under a name of their own", function()
    local out = call([[
      local atomic, thresholds, signal = require "lunette.atomic", require "lunette.thresholds", require "lunette.signal"
      local process = require "lunette.process"
      local add = atomic(function(a, b) return a + b end)
      local s = signal.find("jit.storm")
      local target = { pid = 1, start_time = 1 }
      process.remember(target, "runtime", "mine")
      return {
        sum = add(1, 2), growing = thresholds.of("memory.trend").growing_bytes_per_s, none = thresholds.of("none").x == math.huge,
        locked = not pcall(function() s.limits.compilations = 1 end), at = s.limits.compilations, out = signal.find("none") == nil,
        kept = process.recall(target, "runtime"),
      }]])
    assert.same({ sum = 3, growing = 1048576, none = true, locked = true, at = 500, out = true, kept = "mine" }, out.data)
    assert.is_nil(require("lunette.process").recall({ pid = 1, start_time = 1 }, "runtime"))
  end)

  it("the context of a part of a composite call as one to be read only", function()
    local g, problem = load_site { ["collectors/mine.lua"] = [[
      return collector { kind = "mine", source = function() return {} end, collect = function(ctx)
        local written = pcall(function() ctx.principal.is_root = true end) or pcall(function() ctx.state = {} end)
        return { process_id = 1, started_unix_ms = 1, duration_ms = 1, notes = {}, written = written, call = ctx.call ~= nil }
      end }]] }
    assert.equal("", problem)
    local ctx = context.new({ principal = scopes.principal("t", { "eventpipe" }), transport = "cli" }, function() end)
    local fanout = require("lunette.fanout")
    local prepared = assert(g.tools.collect_events:prepare(ctx, { kind = "mine" }))
    local results = assert(loop.spawn(fanout.run, ctx, { prepared }):await())
    local artifact = assert(results[1].extras, results[1].error and results[1].error.message).handle.artifact
    assert.same({ false, false }, { artifact.written, artifact.call })
    assert.is_nil(ctx.principal.is_root or nil)
  end)
end)
