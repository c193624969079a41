-- SPDX-License-Identifier: MIT
-- lunette test, as a person runs it: the specs of a folder, with both runners, without .NET.
local fs = require("lunette.fs")
local kit = require("support.site_kit")
local loop = require("lunette.loop")
local sys = require("lunette.sys")

local DEMO <const> = sys.home .. "/share/demo.nettrace"

local function test(dir, ...)
  local argv = { "/proc/self/exe", "test", ... }
  if dir then table.insert(argv, 3, dir) end
  local done = assert(loop.exec {
    argv = argv, timeout_ms = 60000, max_output = 1024 * 1024,
    env = { HOME = "/nonexistent", XDG_CONFIG_HOME = "/nonexistent", LUNETTE_SITE = false, LUNETTE_SCRIPTS = false },
  })
  return done.code, done.stdout, done.stderr
end

local QUEUE <const> = [[
return rule {
  name = "orders.queue", input = { counter = "Shop-Orders/queue-length" }, unit = "orders", levels = { elevated = 10, high = 50 },
  summary = "{value} orders wait.", rationale = "Ten orders are a minute of work.",
  hypotheses = { {
    name = "orders.held", confidence = "medium", summary = "Orders wait though the CPU is idle.",
    requires = { { input = "cpu", below = 20, unit = "%", rationale = "Little CPU." } },
    next = { tool = "collect_thread_snapshot", reason = "See where threads wait." },
  } },
}
]]

local GOOD <const> = [[
local t = require("lunette.testing")
local names = require("site.names")

describe("the rules of the shop", function()
  local judge
  before_each(function() judge = t.judge end)

  it("fire from ten orders on", function()
    local r = judge { ["Shop-Orders/queue-length"] = { 3, 60 }, ["System.Runtime/cpu-usage"] = 5 }
    assert.equal("high", r:signal(names.QUEUE).level)
    assert.equal("medium", r:hypothesis("orders.held").confidence)
    local quiet = judge { ["Shop-Orders/queue-length"] = 9 }
    assert.is_nil(quiet:signal(names.QUEUE))
    assert.near(0.1, quiet:explain(names.QUEUE).distance, 0.001)
    assert.equal("near", quiet:explain(names.QUEUE).state)
    assert.same("not-raised", quiet:explain("orders.held").state)
  end)

  it("take facts and captures that are told", function()
    local r = judge({ ["Shop-Orders/queue-length"] = 60 }, { facts = { cpu = 90 } })
    assert.is_nil(r:hypothesis("orders.held"))
    assert.equal("critical", r:signal("cpu.usage").level)
  end)

  it("judge a recording", function()
    local r = judge("demo.nettrace")
    assert.equal("degraded", r.result.assessment)
    assert.is_truthy(r:signal("threadpool.queue"))
    assert.matches("degraded", r.summary)
  end)
end)

describe("what a recording holds", function()
  it("is collected, viewed and searched for signals as a server does it", function()
    local c = t.collect("counters", "demo.nettrace")
    assert.equal("counters", c.handle.kind)
    assert.is_table(c:view("byProvider"))
    assert.is_truthy(c:signal("counters.trend"))
    assert.is_nil(c:signal("no.such"))
    assert.equal("query_snapshot", c.hints[#c.hints].nextTool)
  end)

  it("says what is not there", function()
    assert.has_error(function() t.path("none.nettrace") end)
    assert.has_error(function() t.collect("no-such-kind", "demo.nettrace") end)
    assert.has_error(function() t.signal("no.such", {}) end)
    assert.has_error(function() t.playbook("no-such") end)
  end)

  it("has signals, views and playbooks of made-up things", function()
    local s = t.signal("exceptions.by-type", { total = 60, by_type = { { type = "T", n = 60 } } })
    assert.equal("T", s.buckets[1].key)
    assert.is_nil(t.signal("exceptions.by-type", { total = 1, by_type = { { type = "T", n = 1 } } }))
    assert.matches("%S", t.playbook("shop", { processId = 7 }))
    assert.matches("process 7", t.playbook("shop", { processId = 7 }), 1, true)
  end)
end)
]]

local PLAYBOOK <const> = [[
---
title: Shop
description: What to do when orders wait.
arguments:
  processId: Process id.
---
Call inspect_process(view="triage"){{#processId}} for process {{processId}}{{/processId}}.
]]

local function shop(spec)
  local dir = kit.folder()
  kit.write(dir, "rules/queue.lua", QUEUE)
  kit.write(dir, "playbooks/shop.md", PLAYBOOK)
  kit.write(dir, "lib/names.lua", 'return { QUEUE = "orders.queue" }\n')
  kit.write(dir, "recordings/demo.nettrace", assert(fs.read(DEMO, 64 * 1024 * 1024)))
  kit.write(dir, "specs/shop_spec.lua", spec)
  return dir
end

describe("lunette test", function()
  for name, flag in pairs { busted = false, ["the built-in runner"] = "--plain" } do
    it("runs the specs of a folder with " .. name, function()
      local code, out, err = test(shop(GOOD), flag or nil)
      assert.same({ 0, "" }, { code, err }, out .. err)
      assert.matches("6 successes / 0 failures", out, 1, true)
    end)

    it("says which test failed, where, what was expected and what came, with " .. name, function()
      local bad = 'describe("the shop", function()\n  it("is open", function()\n    assert.equal(1, 2)\n  end)\n'
        .. '  it("has a bug", function() local t = nil; return t.x end)\n  it("is well", function() end)\nend)\n'
      local code, out = test(shop(bad), flag or nil)
      assert.equal(1, code)
      assert.matches("the shop is open", out, 1, true)
      assert.matches("shop_spec.lua:3", out, 1, true)
      assert.matches("shop_spec.lua:5", out, 1, true)
      assert.matches("1 success", out, 1, true)
    end)
  end

  it("fails when a file of the folder is broken, with its file and line, though the specs pass", function()
    local dir = shop('it("passes", function() end)\n')
    kit.write(dir, "rules/typo.lua", 'return rule {\n  name = "x", input = "cpu",\n  levls = { elevated = 1 },\n}\n')
    local code, out, err = test(dir)
    assert.equal(1, code)
    assert.matches("1 success", out, 1, true)
    assert.matches("rules/typo.lua:3", err, 1, true)
    assert.matches('Did you mean "levels"', err, 1, true)
  end)

  it("fails when a rule looks at a fact that nobody declares", function()
    local dir = shop('it("passes", function() end)\n')
    kit.write(dir, "rules/fact.lua",
      'return rule {\n  name = "x", input = "ccpu", levels = { elevated = 1 }, summary = "s", rationale = "r" }\n')
    local code, _, err = test(dir)
    assert.equal(1, code)
    assert.matches('there is no fact "ccpu". Did you mean "cpu"?', err, 1, true)
    assert.matches("rules/fact.lua:1", err, 1, true)
  end)

  it("runs only what the filter matches", function()
    local code, out = test(shop(GOOD), "--filter", "judge a recording")
    assert.equal(0, code)
    assert.matches("1 success /", out, 1, true)
  end)

  it("wants a folder with specs", function()
    local dir = kit.folder()
    local code, _, err = test(dir)
    assert.same({ 1, true }, { code, err:find("no test ran", 1, true) ~= nil })
    assert.equal(2, (test(dir .. "/none")))
    assert.equal(2, (test(dir, "another")))
    assert.equal(2, (test(nil)))
    assert.equal(2, (test(dir, "--flter", "x")))
  end)
end)
