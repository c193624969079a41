-- SPDX-License-Identifier: MIT
-- Numbers by which views and collectors call something by a word are fields of rules: a site changes or takes out each of them.
local build = require("lunette.generation.build")
local declare = require("lunette.declare")
local generation = require("lunette.generation")
local journey = require("lunette.journey")
local kit = require("support.site_kit")
local memory = require("views.process.memory_trend")
local resources = require("views.process.resources")
local site = require("lunette.site")
local thresholds = require("lunette.thresholds")

local MB <const> = 1024 * 1024

local function verdict(bytes_per_s)
  local samples = { { rssBytes = 100 * MB, majorFaults = 0 }, { rssBytes = 100 * MB + bytes_per_s, majorFaults = 0 } }
  return (select(2, memory.judge(samples, 1)))
end

local function dominated(rss, heap) return resources.split(rss * MB, heap * MB).rssDominated end

local function compared(mode, first, last)
  local comparables = {}
  for i, v in ipairs({ first, last }) do comparables[i] = { metrics = { { name = "p95", value = v, worse = "up" } }, keys = { k = 1 } } end
  local found = journey.compare("x", comparables, { mode = mode }, {})
  return mode == "trend" and found.metrics[1].direction or found.verdict
end

describe("thresholds #unit", function()
  local was

  before_each(function() was = generation.newest() end)
  after_each(function() generation.use(was) end)

  local function with(files)
    local dir = kit.folder()
    for path, body in pairs(files) do kit.write(dir, path, body) end
    local g = build.build(site.named({ site.PRODUCT, dir }))
    assert.is_nil(g.problems[1] and declare.format(g.problems[1]))
    generation.use(g)
  end

  it("are the product's where nobody changed them", function()
    assert.same({ growing_bytes_per_s = MB, shrinking_bytes_per_s = MB }, thresholds.of("memory.trend"))
    assert.same({ more_than = 10 }, thresholds.of("db.repeats"))
    assert.same({ "stable", "growing", "shrinking" }, { verdict(MB), verdict(MB + 2), verdict(-MB - 2) })
    assert.same({ false, true, false }, { dominated(64, 0), dominated(200, 99), dominated(200, 100) })
    assert.same({ "flat", "up" }, { compared("trend", 100, 104), compared("trend", 100, 105) })
    assert.same({ "uniform", "dispersed" }, { compared("dispersion", 100, 160), compared("dispersion", 100, 200) })
  end)

  it("that there are not beneath are slips, told with file and line and what there is", function()
    local dir = kit.folder()
    kit.write(dir, "rules/memory-trend.lua", "local base = ...\nreturn extend(base, {\n  numbers = { growing_bytes_per_sec = 10 },\n})")
    local problem = declare.format(build.build(site.named({ site.PRODUCT, dir })).problems[1])
    assert.matches("rules/memory-trend.lua:3: the rule beneath has no \"growing_bytes_per_sec\" in numbers; it has growing_bytes_per_s, "
      .. "shrinking_bytes_per_s. Did you mean \"growing_bytes_per_s\"?", problem, 1, true)
  end)

  it("are changed by a file of the same name, one by one", function()
    with {
      ["rules/memory-trend.lua"] = "local base = ...\nreturn extend(base, { numbers = { growing_bytes_per_s = 10 } })",
      ["rules/native-memory.lua"] = "local base = ...\nreturn extend(base, { numbers = { gap_bytes = 8 } })",
      ["rules/journey.lua"] = "local base = ...\nreturn extend(base, { numbers = { dispersed_at = 0.1, moved_percent = 2 } })",
      ["rules/db.lua"] = "local base = ...\nreturn extend(base, { numbers = { more_than = 99 } })",
    }
    assert.same({ "growing", "stable" }, { verdict(11), verdict(-11) })
    assert.is_true(dominated(64, 0))
    assert.same({ "up", "dispersed" }, { compared("trend", 100, 104), compared("dispersion", 100, 160) })
    assert.equal(99, thresholds.of("db.repeats").more_than)
  end)

  it("are never met when the rule is taken out", function()
    with {
      ["rules/memory-trend.lua"] = 'return disable "our memory moves"', ["rules/native-memory.lua"] = 'return disable "we know"',
    }
    assert.same({ "stable", "stable" }, { verdict(1 << 40), verdict(-99 * MB) })
    assert.is_false(dominated(2000, 1))
  end)
end)
