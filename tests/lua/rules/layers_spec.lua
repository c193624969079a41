-- SPDX-License-Identifier: MIT
-- Rules, signals and hints of a layer beside and above the product's: what a triage asks for, what is replaced, extended, taken out.
local app = require("lunette.app")
local generation = require("lunette.generation")
local index = require("lunette.rules.index")
local captures = require("lunette.rules.captures")
local kit = require("support.site_kit")
local log = require("lunette.log")
local rules_kit = require("rules.kit")
local sys = require("lunette.sys")
local triage = require("triage")

local function named(list, field, name)
  for _, item in ipairs(list) do
    if item[field] == name then return item end
  end
  return nil
end

describe("a layer above the product", function()
  local before, dir
  local function load()
    local loaded = app.load { layers = { dir } }
    generation.use(loaded.generation)
    return loaded
  end
  before_each(function()
    before = generation.newest()
    dir = kit.folder()
  end)
  after_each(function() generation.use(before) end)

  it("makes the triage window ask for the providers and Meters of its rules, without a finding when they are silent", function()
    load()
    assert.is_nil(triage.options().providers)
    kit.write(dir, "rules/orders.lua", [[
return { rule {
  name = "orders.queue", input = { counter = "Shop-Orders/queue-length", stat = "max" }, levels = { elevated = 10 }, unit = "orders",
  summary = "{value} orders wait.", rationale = "Ten are a minute of work.",
}, rule {
  name = "orders.slow", input = { meter = "Shop.Web/checkout.duration", stat = "p95" }, levels = { elevated = 1 }, unit = "s",
  summary = "One checkout in twenty takes {value} s.", rationale = "People leave.",
} }]])
    assert.same({}, load().failures)
    local options = triage.options()
    assert.equal("Shop-Orders", options.providers[#options.providers])
    assert.equal("System.Runtime", options.providers[1])
    assert.is_true(options.implicit_providers)
    assert.same({ "Microsoft.AspNetCore.Hosting", "Shop.Web" }, options.meters)
    local artifact = rules_kit.counters({ ["Shop-Orders/queue-length"] = { 3, 20, 4 } },
      { { meter = "Shop.Web", instrument = "checkout.duration", histogram = { count = 9, p95 = 2.5 } } })
    local r = triage.judge(artifact, 42)
    assert.equal("20 orders wait.", named(r.observedSignals, "name", "orders.queue").summary)
    assert.equal("One checkout in twenty takes 2.50 s.", named(r.observedSignals, "name", "orders.slow").summary)
  end)

  it("changes a threshold of ours by extend, replaces a rule, and takes one out", function()
    kit.write(dir, "rules/gc-time.lua", 'return extend(..., { levels = { elevated = 25 } })\n')
    kit.write(dir, "rules/lock-contention.lua", 'return disable "our locks are meant to be busy"\n')
    kit.write(dir, "rules/cpu-usage.lua", [[
return rule { name = "cpu.usage", input = "cpu", levels = { critical = 99 }, summary = "{value} %.", rationale = "A batch machine." }]])
    assert.same({}, load().failures)
    local r = triage.judge(rules_kit.counters {
      ["System.Runtime/time-in-gc"] = { 20 }, ["System.Runtime/gen-0-gc-count"] = { 3 }, ["System.Runtime/cpu-usage"] = { 95 },
      ["System.Runtime/monitor-lock-contention-count"] = { 500 },
    }, 42)
    for _, name in ipairs { "gc.time", "lock.contention", "cpu.usage" } do assert.is_nil(named(r.observedSignals, "name", name), name) end
    assert.equal("inconclusive", r.verdict)
    local set = index.of()
    assert.equal(dir, named(set.rules, "name", "cpu.usage").layer)
  end)

  it("adds signals and hints to the captures of ours, and changes the numbers of ours", function()
    kit.write(dir, "signals/exceptions_by_type.lua", 'return extend(..., { emit_at = 1.1 })\n')
    kit.write(dir, "signals/thrown.lua", [[
return signal {
  id = "site.thrown", handle = "exception-snapshot", emit_at = 1, limits = { word = "much" },
  of = function(artifact, self)
    if artifact.total < self.emit_at then return nil end
    return { salience = 0.5, summary = self.limits.word, buckets = { { key = "all", magnitude = artifact.total, unit = "exceptions" } } }
  end,
}]])
    kit.write(dir, "hints/thrown.lua", [[
return hint_rule {
  handle = "exception-snapshot", order = 1,
  hints = { { when = { { signal = "site.thrown" } }, tool = "query_snapshot", arguments = { view = "byType" }, reason = "{value} ours." } },
}]])
    assert.same({}, load().failures)
    local capture = assert(captures.of_recording("exceptions", sys.home .. "/tests/data/recordings/throw.nettrace"))
    assert.is_true(capture.artifact.total > 0)
    assert.same({ 1, "site.thrown", "much", capture.artifact.total },
      { #capture.signals, capture.signals[1].signal, capture.signals[1].summary, capture.signals[1].buckets[1].magnitude })
    assert.equal("byType", capture.hints[1].suggestedArguments.view)
    assert.equal(capture.handle.id, capture.hints[1].suggestedArguments.handle)
  end)

  it("costs only itself when a function of it loops or throws", function()
    kit.write(dir, "rules/loop.lua", [[
return rule {
  name = "site.loop", input = { handle = "counters", of = function() while true do end end }, levels = { elevated = 1 }, summary = "s",
  rationale = "r",
}]])
    kit.write(dir, "rules/throw.lua", [[
return rule {
  name = "site.throw", input = { handle = "counters", of = function() error({}) end }, levels = { elevated = 1 }, summary = "s",
  rationale = "r",
}]])
    assert.same({}, load().failures)
    local error_of, told = log.error, {}
    log.error = function(_, message) told[#told + 1] = message end -- luacheck: ignore
    local ok, r = pcall(triage.judge, rules_kit.counters { ["System.Runtime/cpu-usage"] = { 95 } }, 42)
    log.error = error_of -- luacheck: ignore
    assert.is_true(ok, tostring(r))
    assert.equal("critical", r.assessment)
    assert.is_nil(named(r.observedSignals, "name", "site.loop"))
    assert.same({ "the rule site.loop failed", "the rule site.throw failed" }, told)
  end)
end)
