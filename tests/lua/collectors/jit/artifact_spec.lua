-- SPDX-License-Identifier: MIT
-- The jit artifact: rows of methods, rates, the health line, and what the notes own up to.
local artifacts = require("collectors.jit.artifact")
local window = require("support.jit_window")

local row, artifact = window.row, window.artifact

local function noted(a, pattern)
  for _, note in ipairs(a.notes) do
    if note:find(pattern) then return note end
  end
  return nil
end

describe("collectors.jit.artifact", function()
  it("orders methods by inclusive JIT time, ties by name", function()
    local a = artifact { row("Short", 1), row("B", 3), row("Long", 20), row("A", 3) }
    local names = {}
    for i, m in ipairs(a.methods) do names[i] = m.name end
    assert.same({ "Long", "A", "B", "Short" }, names)
    assert.equal(20.0, a.methods[1].inclusive_ms)
    assert.equal(27.0, a.jit_ms)
  end)

  it("names the tier of the last body; one that is not jitted is ReadyToRun", function()
    local a = artifact {
      row("a", 9, { tier = 5 }), row("b", 8, { tier = 4 }), row("c", 7, { tier = 6 }), row("d", 6, { tier = 2, jitted = false }),
      row("e", 5, { tier = 0 }),
    }
    local tiers = {}
    for i, m in ipairs(a.methods) do tiers[i] = m.last_tier end
    assert.same({ "OptimizedTier1OSR", "OptimizedTier1", "QuickJittedInstrumented", "ReadyToRun", "Unknown" }, tiers)
  end)

  it("has no hit rate without lookups, and one over all lookups with them", function()
    assert.is_nil(artifact({ row("a", 1) }).r2r_hit_percent)
    local a = artifact({ row("a", 1) }, { r2r_lookups = 8, r2r_hits = 6, r2r_miss_then_jit = { pairs = 1 } })
    assert.same({ 75.0, 6, 1 }, { a.r2r_hit_percent, a.tiers.r2r_hit, a.tiers.r2r_miss_then_jit })
    assert.equal(0.0, artifact({}, { r2r_lookups = 3 }).r2r_hit_percent)
  end)

  it("gives the share of methods, not of compilations, that reached tier 1", function()
    local twice = { n = 3, tier0 = 2, tier1 = 1 }
    assert.equal(50.0, artifact({ row("hot", 5, twice), row("cold", 1) }).tier1_percent)
    assert.equal(0, artifact({}).tier1_percent)
  end)

  it("finds IL maps by method", function()
    local a = artifact({ row("with", 2, { id = 7 }), row("without", 1, { id = 8 }) }, { il_maps = { rows = { { key = 7 } } } })
    assert.same({ true, false }, { a.methods[1].has_il_map, a.methods[2].has_il_map })
  end)

  it("takes the busiest second for the peak", function()
    local result = { row("a", 900, { n = 700 }) }
    local compiled = window.result(result).compiled
    compiled.seconds.buckets = { { at_ns = 0, n = 100, ns = 50e6 }, { at_ns = 3e9, n = 600, ns = 850e6 } }
    local a = artifact(result, { compiled = compiled })
    assert.same({ 600, 0.85 }, { a.peak.per_s, a.peak.share })
  end)

  describe("health", function()
    it("is quiet when nothing was compiled", function()
      assert.equal("quiet: nothing was compiled.", artifacts.health(artifact {}))
      assert.matches("^quiet: .*12 methods ran from ReadyToRun code", artifacts.health(artifact({}, { r2r_lookups = 12, r2r_hits = 12 })))
    end)

    it("is warming-up while most is tier 0, and steady when it is not", function()
      assert.equal("warming-up: 2 compilations (0.2 a second) took 3.0 ms, most at tier 0.", artifacts.health(artifact {
        row("a", 1), row("b", 2) }))
      assert.matches("^steady: 2 compilations", artifacts.health(artifact { row("a", 1), row("b", 2, { tier0 = 0, tier1 = 1 }) }))
    end)

    it("is a storm from 500 compilations and a tenth of a second, not from either alone", function()
      local function of(n, ms) return artifacts.health(artifact { row("a", ms, { n = n }) }):match("^[%w-]+") end
      assert.same({ "storm", "steady", "steady" }, { of(500, 100), of(499, 900), of(5000, 99) })
    end)
  end)

  describe("notes", function()
    it("are empty when there is nothing to say", function() assert.same({}, artifact({ row("a", 1) }).notes) end)

    it("tell of compilations without a time, and why there are none at all", function()
      local compiled = window.result({ row("a", 1) }).compiled
      compiled.unmatched = 4
      assert.matches("4 compilations began before the window and are",
        noted(artifact({}, { compiled = compiled, starts = 9 }), "^TimeUnknown"))
      assert.matches("without a start event", noted(artifact({}, { compiled = compiled, starts = 0 }), "^TimeUnknown"))
    end)

    it("tell what the cap on methods left to the totals", function()
      local compiled = window.result({ row("a", 1) }).compiled
      compiled.methods.other, compiled.methods.keys = { keys = 30 }, 31
      local a = artifact({}, { compiled = compiled })
      assert.matches("1 methods are listed; 30 more", noted(a, "^MethodLimitReached"))
      assert.equal(31, a.unique_methods)
    end)

    it("tell tiering from changed IL", function()
      assert.matches("a higher tier or OSR%.$", noted(artifact { row("a", 1, { rejit = 2 }) }, "^ReJit: 2 "))
      assert.matches("3 of changed IL", noted(artifact({ row("a", 1, { rejit = 5 }) }, { changed_il = 3 }), "^ReJit: 5 "))
    end)

    it("tell of compilations that did not end", function()
      local compiled = window.result({ row("a", 1) }).compiled
      compiled.open = 1
      assert.matches("1 compilations began", noted(artifact({}, { compiled = compiled }), "^Unfinished"))
    end)
  end)
end)
