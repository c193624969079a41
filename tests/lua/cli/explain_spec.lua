-- SPDX-License-Identifier: MIT
-- lunette explain, and the explanation behind it: fired, near, held back, quiet, not measured; for and against; where each rule is from.
local json = require("lunette.json")
local kit = require("support.site_kit")
local loop = require("lunette.loop")
local rules_kit = require("rules.kit")
local explain = require("lunette.rules.explain")
local sys = require("lunette.sys")

local DEMO <const> = sys.home .. "/share/demo.nettrace"

local function run(...)
  local done = assert(loop.exec {
    argv = { "/proc/self/exe", "explain", ... }, timeout_ms = 60000, max_output = 1024 * 1024,
    env = { HOME = "/nonexistent", XDG_CONFIG_HOME = "/nonexistent", LUNETTE_SITE = false, LUNETTE_SCRIPTS = false },
  })
  return done.code, done.stdout, done.stderr
end

local function named(list, name)
  for _, item in ipairs(list) do
    if item.name == name then return item end
  end
  return nil
end

local function queue(more)
  local rule = {
    name = "orders.queue", input = { counter = "Shop/queue" }, levels = { elevated = 10, high = 50 }, unit = "orders",
    summary = "{value} wait.", rationale = "Because.",
  }
  for k, v in pairs(more or {}) do rule[k] = v end
  return rule
end

local function explained(rules, readings, options)
  local set = rules_kit.set(table.unpack(rules))
  local _, _, window = rules_kit.judge(set, readings)
  return explain.of(set, window, options)
end

describe("an explanation", function()
  it("tells of each rule how it came out, and how far it is from its threshold", function()
    local function state(value, options)
      return explained({ queue() }, value and { ["Shop/queue"] = { value } } or {}, options).rules[1]
    end
    local fired = state(12)
    assert.same({ "fired", "elevated", 12, 10, "high", 50 },
      { fired.state, fired.level, fired.value, fired.threshold, fired.nextLevel, fired.nextThreshold })
    local near = state(8)
    assert.same({ "near", 0.2, "elevated", 10 }, { near.state, near.distance, near.nextLevel, near.threshold })
    assert.equal("quiet", state(5).state)
    assert.equal("near", state(5, { near = 0.5 }).state)
    local unknown = state(nil)
    assert.same({ "not-measured", "Shop/queue" }, { unknown.state, unknown.unmeasured })
    assert.same({ "/site/rules/orders.queue.lua:1", "/site" }, { near.file, near.layer })
  end)

  it("tells which condition held a rule back", function()
    local rule = queue { when = { { counter = "Shop/open", equals = 1 } } }
    local row = explained({ rule }, { ["Shop/queue"] = { 60 }, ["Shop/open"] = { 0 } }).rules[1]
    assert.equal("held-back", row.state)
    assert.matches("open is 0, not == 1", row.heldBackBy[1], 1, true)
    row = explained({ rule }, { ["Shop/queue"] = { 60 } }).rules[1]
    assert.matches("Shop/open was not measured", row.heldBackBy[1], 1, true)
  end)

  it("tells of a change how far each metric is from it", function()
    local rule = {
      name = "grew", change = { percent = 20, amount = 10, unit = "items" }, level = "high", summary = "{changes}", rationale = "r",
      inputs = { { counter = "Shop/a" }, { counter = "Shop/b" } },
    }
    local row = explained({ rule }, { ["Shop/a"] = { 100, 109 }, ["Shop/b"] = { 100, 118 } }).rules[1]
    assert.same({ "near", 2 }, { row.state, #row.changes })
    assert.near(0.1, row.distance, 1e-9)
    assert.near(0.55, row.changes[1].distance, 1e-9)
    assert.equal("fired", explained({ rule }, { ["Shop/a"] = { 10, 90 } }).rules[1].state)
  end)

  it("tells what is for and against a hypothesis, and what it lacks", function()
    local rule = queue { hypotheses = { {
      name = "held", summary = "s", confidence = "low", requires = { { counter = "Shop/busy", below = 2, unit = "workers" } },
      contradicts = { { counter = "Shop/open", equals = 0, rationale = "Closed." } }, next = { tool = "t", reason = "r" },
    } } }
    local stands = explained({ rule }, { ["Shop/queue"] = { 60 }, ["Shop/busy"] = { 0 }, ["Shop/open"] = { 0 } }).hypotheses[1]
    assert.same({ "stands", "low", 2, "Closed." }, { stands.state, stands.confidence, #stands.supports, stands.against[1].rationale })
    local refuted = explained({ rule }, { ["Shop/queue"] = { 60 }, ["Shop/busy"] = { 3 } }).hypotheses[1]
    assert.same({ "refuted", "busy is 3 workers, not < 2" }, { refuted.state, refuted.missing[1] })
    local quiet = explained({ rule }, { ["Shop/queue"] = { 6 }, ["Shop/busy"] = { 0 } }).hypotheses[1]
    assert.same({ "not-raised", "the signal orders.queue (6 of 10 orders)" }, { quiet.state, quiet.missing[1] })
  end)
end)

describe("lunette explain", function()
  it("judges a recording, with each rule's file", function()
    local code, out = run(DEMO)
    assert.equal(0, code)
    assert.matches("degraded (work.waiting-or-backpressure)", out, 1, true)
    assert.matches("elevated   threadpool.starvation: 87 work items wait", out, 1, true)
    assert.matches("critical >= 200 items", out, 1, true)
    assert.matches("lua/rules/threadpool%-starvation.lua:%d+", out)
    assert.matches("work.waiting-or-backpressure stands (medium)", out, 1, true)
    assert.matches("-  gen-0-gc-count 0 collections < 1", out, 1, true)
    assert.is_nil(out:find("cpu.usage", 1, true))
    local _, all = run(DEMO, "--all")
    assert.matches("cpu.usage", all, 1, true)
    assert.matches("no value of System.Runtime/time-in-gc", all, 1, true)
  end)

  it("gives all of it as JSON", function()
    local code, out = run(DEMO, "--json")
    assert.equal(0, code)
    local report = assert(json.decode(out))
    assert.same({ "degraded", "threadpool-starvation", DEMO }, { report.assessment, report.verdict, report.recording })
    local row = named(report.rules, "threadpool.queue")
    assert.same({ "fired", 87, 10, "product" }, { row.state, row.value, row.threshold, row.layer })
    assert.same("stands", named(report.hypotheses, "work.waiting-or-backpressure").state)
    assert.same({}, report.problems)
  end)

  it("judges by the rules of a site, looks at further captures of a recording, and tells what is broken", function()
    local dir = kit.folder()
    kit.write(dir, "rules/near.lua", [[
return rule {
  name = "site.queue", input = { counter = "System.Runtime/threadpool-queue-length", stat = "last" }, levels = { elevated = 100 },
  unit = "items", summary = "{value} wait.", rationale = "Our own number.",
}]])
    kit.write(dir, "rules/gc.lua", [[
return rule {
  name = "site.window", input = { handle = "gc-events", field = "duration_ms" }, levels = { elevated = 1 }, unit = "ms",
  summary = "{value} ms were seen.", rationale = "It is there.",
}]])
    kit.write(dir, "rules/threadpool-starvation.lua", 'return extend(..., { levels = { critical = 80 } })\n')
    kit.write(dir, "rules/bad.lua",
      'return rule { name = "bad", input = "quue", levels = { elevated = 1 }, summary = "s", rationale = "r" }\n')
    local code, out = run(DEMO, "--json", "--site", dir)
    assert.equal(0, code)
    local report = assert(json.decode(out))
    local near = named(report.rules, "site.queue")
    assert.same({ "near", dir }, { near.state, near.layer })
    assert.near(0.13, near.distance, 1e-9)
    assert.equal(dir .. "/rules/near.lua:1", near.file)
    assert.equal("fired", named(report.rules, "site.window").state)
    assert.equal("critical", named(report.rules, "threadpool.starvation").level)
    assert.equal("critical", report.assessment)
    assert.matches('Did you mean "queue"?', report.problems[1].message, 1, true)
  end)

  it("says what is wrong with a command line, a process and a file", function()
    assert.equal(2, (run()))
    assert.equal(2, (run(DEMO, "--near", "x")))
    assert.equal(2, (run(DEMO, "--seconds", "0")))
    local code, _, err = run("/no/such.nettrace")
    assert.equal(1, code)
    assert.matches("there is no file /no/such.nettrace", err, 1, true)
    code, _, err = run("1")
    assert.equal(1, code)
    assert.is_true(#err > 20)
  end)
end)
