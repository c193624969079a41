-- SPDX-License-Identifier: MIT
-- The rule engine on rules made up here: inputs, thresholds, changes, hypotheses, and what is wrong with a rule.
local here = debug.getinfo(1, "S").source:match("^@(.*/)")
local asked = require("support.asked")
local kit = dofile(here .. "kit.lua")

local function queue(more)
  local rule = {
    name = "orders.queue", input = { counter = "Shop-Orders/queue-length", stat = "last" }, levels = { elevated = 10, high = 50 },
    unit = "orders", summary = "{value} {unit} wait ({level} from {threshold} on).", rationale = "Ten orders are a minute of work.",
  }
  for k, v in pairs(more or {}) do rule[k] = v end
  return rule
end

local function fires(rule, readings, meters, others)
  local set = kit.set(rule)
  assert.same({}, set.problems)
  local observed, _, window = kit.judge(set, readings, meters, others)
  return observed[1], window
end

local function problem_of(...)
  local set = kit.set(...)
  assert.equal(1, #set.problems, "one problem was expected")
  return set.problems[1].message
end

describe("a rule with levels", function()
  it("gives the highest level that the value meets, with its evidence", function()
    local signal = fires(queue(), { ["Shop-Orders/queue-length"] = { 3, 60 } })
    assert.equal("high", signal.level)
    assert.equal("60 orders wait (high from 50 on).", signal.summary)
    local e = signal.evidence[1]
    assert.same({ "queue-length", 60, ">=", 50, "orders", "Ten orders are a minute of work." },
      { e.name, e.value, e.comparison, e.threshold, e.unit, e.rationale })
    assert.equal("elevated", fires(queue(), { ["Shop-Orders/queue-length"] = { 10 } }).level)
  end)

  it("is silent below, and when the counter did not come", function()
    assert.is_nil(fires(queue(), { ["Shop-Orders/queue-length"] = { 90, 9 } }))
    assert.is_nil(fires(queue(), { ["Shop-Orders/other"] = { 90 } }))
    assert.is_nil(fires(queue(), {}))
  end)

  it("judges what is too small with comparison <", function()
    local rule = queue { comparison = "<", levels = { elevated = 10, critical = 2 } }
    assert.equal("elevated", fires(rule, { ["Shop-Orders/queue-length"] = { 9 } }).level)
    local signal = fires(rule, { ["Shop-Orders/queue-length"] = { 1 } })
    assert.equal("critical", signal.level)
    assert.equal("<", signal.evidence[1].comparison)
    assert.is_nil(fires(rule, { ["Shop-Orders/queue-length"] = { 10 } }))
  end)

  it("fires only while its other conditions hold, and shows those that have a reason", function()
    local rule = queue { when = { { counter = "Shop-Orders/workers", at_least = 1, unit = "workers", rationale = "Somebody works." } } }
    local signal = fires(rule, { ["Shop-Orders/queue-length"] = { 60 }, ["Shop-Orders/workers"] = { 2 } })
    assert.equal(2, #signal.evidence)
    assert.equal("workers", signal.evidence[2].name)
    assert.is_nil(fires(rule, { ["Shop-Orders/queue-length"] = { 60 }, ["Shop-Orders/workers"] = { 0 } }))
    assert.is_nil(fires(rule, { ["Shop-Orders/queue-length"] = { 60 } }))
  end)
end)

describe("the statistics of an input", function()
  local values = { 10, 30, 20, 40 }
  local expected = {
    last = 40, first = 10, min = 10, max = 40, mean = 25, total = 100, samples = 4, falls = 1, growth = 30, growth_percent = 300,
    per_second = 25,
  }
  for stat, value in pairs(expected) do
    it("are: " .. stat, function()
      local rule = queue { input = { counter = "A/b", stat = stat }, levels = { elevated = value } }
      assert.equal(value, fires(rule, { ["A/b"] = values }).evidence[1].value)
    end)
  end

  it("of an instrument: histograms, rates, the pick among series, tags", function()
    local meters = {
      { meter = "Shop", instrument = "checkout", tags = { region = "eu" }, histogram = { count = 5, sum = 2, p50 = 0.1, p95 = 0.4 } },
      { meter = "Shop", instrument = "checkout", tags = { region = "us" }, histogram = { count = 7, sum = 9, p50 = 0.2, p95 = 0.9 } },
      { meter = "Shop", instrument = "sold", rate = 3, values = { 10, 12 } },
      { meter = "Other", instrument = "checkout", histogram = { count = 1, p95 = 5 } },
    }
    local function value(input)
      local signal = fires(queue { input = input, levels = { elevated = -1 } }, {}, meters)
      return signal and signal.evidence[1].value
    end
    assert.equal(0.9, value { meter = "Shop/checkout", stat = "p95" })
    assert.equal(0.4, value { meter = "Shop/checkout", stat = "p95", pick = "min" })
    assert.equal(12, value { meter = "Shop/checkout", stat = "count", pick = "sum" })
    assert.equal(0.4, value { meter = "Shop/checkout", stat = "p95", tags = { region = "eu" } })
    assert.equal(5, value { meter = "*/checkout", stat = "p95" })
    assert.equal(3, value { meter = "Shop/sold", stat = "rate" })
    assert.equal(12, value { meter = "Shop/sold" })
    assert.is_nil(value { meter = "Shop/nothing", stat = "p95" })
  end)

  it("can be scaled and rounded, and made of others with a word or a function", function()
    local readings = { ["A/used"] = { 30 }, ["A/size"] = { 40 } }
    local function value(input) return fires(queue { input = input, levels = { elevated = -1000 } }, readings).evidence[1].value end
    assert.equal(3, value { counter = "A/used", scale = 0.09, round = true })
    local both = { { counter = "A/used" }, { counter = "A/size" } }
    assert.equal(75, value { from = both, as = "percent" })
    assert.equal(0.75, value { from = both, as = "share" })
    assert.equal(-10, value { from = both, as = "difference" })
    assert.equal(1200, value { from = both, of = function(a, b) return a * b end })
  end)

  it("are not measured when a part is not", function()
    local rule = queue { input = { from = { { counter = "A/used" }, { counter = "A/size" } }, as = "share" }, levels = { elevated = 0 } }
    assert.is_nil(fires(rule, { ["A/used"] = { 1 } }))
    assert.is_nil(fires(rule, { ["A/used"] = { 1 }, ["A/size"] = { 0 } }))
  end)

  it("have no value where a text, a trend or another thing stands for the number", function()
    local odd = { status = "open", n = 3, list = { n = 3 } }
    for _, input in ipairs {
      { from = { { handle = "odd", field = "status" }, { handle = "odd", field = "n" } }, as = "sum" },
      { from = { { counter = "A/b", stat = "trend" }, { counter = "A/b" } }, as = "max" }, { handle = "odd", field = "status" },
      { handle = "odd", field = "list", stat = "mean" }, { handle = "odd", field = "n.deeper" },
      { handle = "odd", field = "n", count = true },
    } do
      local signal, window = fires(queue { input = input, levels = { elevated = -1 } }, { ["A/b"] = { 1, 2 } }, nil, { odd = odd })
      assert.is_nil(signal)
      assert.same({}, window.faults)
    end
  end)

  it("can be a field of another capture, or a function over it", function()
    local gc = { suspensions = { status = "complete", pause = { max_ns = 250e6 } }, rows = { 1, 2, 3 } }
    local rule = queue { input = { handle = "gc-events", field = "suspensions.pause.max_ns", scale = 1e-6 }, levels = { elevated = 100 } }
    assert.equal(250, fires(rule, {}, nil, { ["gc-events"] = gc }).evidence[1].value)
    assert.is_nil(fires(rule, {}))
    rule = queue { input = { handle = "gc-events", field = "rows", count = true }, levels = { elevated = 3 } }
    assert.equal(3, fires(rule, {}, nil, { ["gc-events"] = gc }).evidence[1].value)
    rule = queue { input = { handle = "gc-events", of = function(a) return #a.rows * 10 end }, levels = { elevated = 30 } }
    assert.equal(30, fires(rule, {}, nil, { ["gc-events"] = gc }).evidence[1].value)
  end)

  it("read what many rules ask for once", function()
    local calls = 0
    local facts = { name = "facts", facts = { slow = { from = { { counter = "A/b" } }, of = function(v)
      calls = calls + 1
      return v
    end } } }
    local set = kit.set(facts, queue { name = "a", input = "slow" }, queue { name = "b", input = "slow" },
      queue { name = "c", input = "slow" })
    assert.equal(3, #kit.judge(set, { ["A/b"] = { 20 } }))
    assert.equal(1, calls)
  end)

  it("a function that gives no number that there is, as by a division by zero, has measured nothing", function()
    for _, value in ipairs({ 0 / 0, 1 / 0, -1 / 0 }) do
      local set = kit.set(queue { name = "odd", levels = { elevated = 1 }, input = { handle = "counters",
        of = function() return value end } })
      local observed, _, window = kit.judge(set, {})
      assert.same({ 0, 0 }, { #observed, #window.faults })
    end
    for _, value in ipairs({ print, coroutine.create(print), io.stdout }) do
      local set = kit.set(queue { name = "odd", levels = { elevated = 1 }, input = { handle = "counters",
        of = function() return value end } })
      local observed, _, window = kit.judge(set, {})
      assert.equal(0, #observed)
      assert.matches("must give a number, a text, true or false; got a " .. type(value), window.faults[1].message, 1, true)
    end
  end)

  it("cost a rule only its own value when their function fails, and tell", function()
    local set = kit.set(queue { name = "bad", input = { handle = "counters", of = function() error("oh") end } },
      queue { name = "gone", input = { handle = "counters", of = function() return nil, { message = "spent" } end } }, queue())
    local observed, _, window = kit.judge(set, { ["Shop-Orders/queue-length"] = { 60 } })
    assert.equal(1, #observed)
    assert.equal("the rule bad", window.faults[1].what)
    assert.is_truthy(window.faults[1].message:find("oh", 1, true))
    assert.equal("spent", window.faults[2].message)
  end)
end)

describe("a rule with a change", function()
  local function rule(change)
    return {
      name = "cache.change", change = change, level = "high",
      inputs = { { counter = "Shop/cache-items" }, { counter = "Shop/cache-bytes" } },
      summary = "Changed: {changes}.", rationale = "A cache keeps its size.",
    }
  end

  it("fires for the metrics that changed by both amounts, and says which", function()
    local signal = fires(rule { percent = 50, amount = 5, unit = "items" },
      { ["Shop/cache-items"] = { 10, 18 }, ["Shop/cache-bytes"] = { 8, 10 } })
    assert.equal("Changed: cache-items by 8 items (80 %).", signal.summary)
    assert.same({ 80, 50, 8, 5 },
      { signal.evidence[1].value, signal.evidence[1].threshold, signal.evidence[2].value, signal.evidence[2].threshold })
    assert.is_nil(fires(rule { percent = 50, amount = 9, unit = "items" }, { ["Shop/cache-items"] = { 10, 18 } }))
    assert.is_nil(fires(rule { percent = 50, amount = 5, unit = "items" }, { ["Shop/cache-items"] = { 18 } }))
  end)

  it("sees a fall when it is asked for one", function()
    local down = rule { percent = 50, direction = "down", unit = "items" }
    local signal = fires(down, { ["Shop/cache-items"] = { 100, 20 } })
    assert.same({ -80, "<=", -50 }, { signal.evidence[1].value, signal.evidence[1].comparison, signal.evidence[1].threshold })
    assert.is_nil(fires(down, { ["Shop/cache-items"] = { 20, 100 } }))
    local either = rule { percent = 50, direction = "either", unit = "items" }
    assert.is_truthy(fires(either, { ["Shop/cache-items"] = { 100, 20 } }))
    assert.is_truthy(fires(either, { ["Shop/cache-items"] = { 20, 100 } }))
  end)
end)

describe("a hypothesis", function()
  local function set(more)
    local h = {
      name = "orders.workers-held", summary = "Orders wait though workers are free.", confidence = "low",
      requires = { { counter = "Shop-Orders/busy", below = 2, unit = "workers", rationale = "Hardly anybody works." } },
      stronger = { confidence = "high", when = { { counter = "Shop-Orders/added", at_least = 1, rationale = "More were hired." } } },
      contradicts = { { counter = "Shop-Orders/closed", equals = 1, rationale = "The shop is closed." } },
      next = { tool = "collect_events", arguments = { kind = "threadpool" }, reason = "See the pool." },
    }
    for k, v in pairs(more or {}) do h[k] = v end
    return kit.set(queue { hypotheses = { h } }, queue { name = "orders.failed", input = { counter = "Shop-Orders/failed" } })
  end
  local function weigh(readings, more)
    local s = set(more)
    assert.same({}, s.problems)
    return select(2, kit.judge(s, readings))[1]
  end
  local waiting = { ["Shop-Orders/queue-length"] = { 60 }, ["Shop-Orders/busy"] = { 0 } }
  local function with(more)
    local r = {}
    for k, v in pairs(waiting) do r[k] = v end
    for k, v in pairs(more) do r[k] = v end
    return r
  end

  it("stands on its signals and conditions, with all of them as evidence", function()
    local h = weigh(waiting)
    assert.equal("low", h.confidence)
    assert.same({ "queue-length", "busy" }, { h.supportingEvidence[1].name, h.supportingEvidence[2].name })
    assert.same({}, h.contradictingEvidence)
    assert.same({ "collect_events", "threadpool", 42 },
      { h.nextStep.nextTool, h.nextStep.suggestedArguments.kind, h.nextStep.suggestedArguments.processId })
    assert.is_nil(weigh(with { ["Shop-Orders/busy"] = { 2 } }))
    assert.is_nil(weigh(with { ["Shop-Orders/queue-length"] = { 9 } }))
    assert.is_nil(weigh { ["Shop-Orders/queue-length"] = { 60 } }, "a condition that was not measured does not hold")
  end)

  it("has evidence of numbers alone, each with a unit and a reason, whatever its conditions leave out", function()
    local h = weigh(with { ["Shop-Orders/idle"] = { 5 } }, { requires = {
      { counter = "Shop-Orders/busy", below = 2 }, { counter = "Shop-Orders/idle", measured = true },
      { counter = "Shop-Orders/missing", is_not = 1 },
    } })
    local names = {}
    for i, evidence in ipairs(h.supportingEvidence) do
      asked.fits(evidence, "TriageSignalEvidence")
      names[i] = evidence.name
    end
    assert.same({ "queue-length", "busy" }, names)
    assert.same({ "", "It stands on this condition: busy < 2." },
      { h.supportingEvidence[2].unit, h.supportingEvidence[2].rationale })
  end)

  it("rises in confidence with more evidence, and keeps what speaks against it", function()
    local h = weigh(with { ["Shop-Orders/added"] = { 1 }, ["Shop-Orders/closed"] = { 1 } })
    assert.equal("high", h.confidence)
    assert.equal("The shop is closed.", h.contradictingEvidence[1].rationale)
  end)

  it("gives way to a signal of its unless", function()
    assert.is_nil(weigh(with { ["Shop-Orders/failed"] = { 10 } }, { unless = { "orders.failed" } }))
    assert.is_truthy(weigh(with { ["Shop-Orders/failed"] = { 9 } }, { unless = { "orders.failed" } }))
  end)

  it("judges by something else, with less confidence, what was not measured", function()
    local more = { requires = { {
      counter = "Shop-Orders/busy", below = 2,
      unknown = { counter = "Shop-Orders/idle", above = 5, confidence = "low", rationale = "Many idle." },
    } } }
    local h = weigh({ ["Shop-Orders/queue-length"] = { 60 }, ["Shop-Orders/idle"] = { 6 }, ["Shop-Orders/added"] = { 1 } }, more)
    assert.equal("low", h.confidence)
    assert.is_nil(weigh({ ["Shop-Orders/queue-length"] = { 60 }, ["Shop-Orders/idle"] = { 5 } }, more))
  end)
end)

describe("what a set asks for", function()
  it("is every provider and Meter of its rules", function()
    local set = kit.set(queue(), queue { name = "b", input = { meter = "Shop.Web/checkout", stat = "p95" } },
      queue { name = "c", input = { meter = "*/checkout", stat = "p95", ask = "Shop.Api" } },
      queue { name = "d", input = { counter = "A/b" }, when = { { counter = "Only-In-When/x", above = 1 } } })
    assert.same({ ["Shop-Orders"] = true, A = true, ["Only-In-When"] = true }, set.asks.providers)
    assert.same({ ["Shop.Web"] = true, ["Shop.Api"] = true }, set.asks.meters)
  end)
end)

describe("a rule that is wrong", function()
  it("is left out, named, and leaves the others", function()
    local set = kit.set(queue { name = "bad", input = "quue" }, queue(), { name = "facts", facts = { queue = { counter = "A/b" } } })
    assert.equal(1, #set.problems)
    assert.equal("/site/rules/bad.lua:1", set.problems[1].file)
    assert.equal('there is no fact "quue". Did you mean "queue"?', set.problems[1].message)
    assert.equal(2, #set.rules)
  end)

  local cases = {
    ["a counter without its provider"] = { queue { input = { counter = "queue-length" } }, "OWNER/NAME" },
    ["a misspelt statistic"] = { queue { input = { counter = "A/b", stat = "maen" } }, 'Did you mean "mean"?' },
    ["a misspelt level"] = { queue { levels = { elevatd = 3 } }, 'Did you mean "elevated"?' },
    ["levels that can never be reached"] = { queue { levels = { elevated = 10, high = 5 } }, "can never be the one" },
    ["a gap that nothing fills"] = { queue { summary = "{valu} orders" }, 'Did you mean "value"?' },
    ["a condition without a comparison"] = { queue { when = { { counter = "A/b" } } }, "at_least" },
    ["a condition with two"] = { queue { when = { { counter = "A/b", above = 1, below = 2 } } }, "one thing" },
    ["a signal as a condition of an observation"] = { queue { when = { { signal = "x" } } }, "Use a hypothesis" },
    ["a signal as an input"] = { queue { input = { fired = "x" } }, "Use a hypothesis" },
    ["a fact that the assessment does not find"] = {
      { name = "a", assessment = { { word = "healthy", unmeasured = { "cpu" } } } }, '"cpu"',
    },
    ["an input of nothing"] = { queue { input = { stat = "mean" } }, "counter" },
    ["no rationale"] = { queue { rationale = false }, "rationale" },
    ["a change without amounts"] = {
      { name = "x", change = {}, input = { counter = "A/b" }, level = "high", summary = "s", rationale = "r" }, "percent",
    },
    ["a fact made of itself"] = { { name = "f", facts = { a = { from = { "a" }, as = "sum" } } }, "made of itself" },
  }
  for name, case in pairs(cases) do
    it("says so: " .. name, function()
      local rule = case[1]
      if rule.rationale == false then rule.rationale = nil end
      local message = problem_of(rule)
      assert.is_truthy(message:find(case[2], 1, true), message)
    end)
  end

  it("is told when its hypothesis looks for a signal that no rule gives", function()
    local message = problem_of(queue { hypotheses = { {
      name = "h", summary = "s", confidence = "low", signals = { "orders.queu" }, next = { tool = "t", reason = "r" },
    } } })
    assert.is_truthy(message:find('no rule gives. Did you mean "orders.queue"?', 1, true), message)
    local when = { any = { { counter = "A/b", above = 1 }, { signal = "orders.queu" } } }
    for _, field in ipairs { "requires", "contradicts", "stronger" } do
      local h = { name = "h", summary = "s", confidence = "low", next = { tool = "t", reason = "r" } }
      h[field] = field == "stronger" and { confidence = "high", when = { when } } or { when }
      message = problem_of(queue { hypotheses = { h } })
      assert.is_truthy(message:find('no rule gives. Did you mean "orders.queue"?', 1, true), message)
    end
  end)

  it("is told, and serves, when a counter of the runtime is not known", function()
    local set = kit.set(queue { input = { counter = "System.Runtime/cpu-usge" }, levels = { elevated = 1 } })
    assert.equal(1, #set.rules)
    assert.is_true(set.problems[1].doubt)
    assert.equal('System.Runtime is not known to have a counter "cpu-usge". Did you mean "cpu-usage"?', set.problems[1].message)
    assert.equal("/site/rules/orders.queue.lua:1", set.problems[1].file)
    assert.equal(1, #kit.judge(set, { ["System.Runtime/cpu-usge"] = { 3 } }))
  end)

  it("is told when its name is there twice", function()
    assert.is_truthy(problem_of(queue(), queue()):find("there is a rule \"orders.queue\" already", 1, true))
  end)
end)
