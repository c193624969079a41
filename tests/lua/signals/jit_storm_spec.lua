-- SPDX-License-Identifier: MIT
-- jit.storm: silent below its thresholds, the namespaces with the most compilations above them.
local storm = require("signals.jit_storm")
local window = require("support.jit_window")

describe("signals.jit_storm", function()
  it("is silent for what being looked at makes a process compile", function()
    assert.same({}, storm.of(window.artifact { window.row("a", 200, { n = 330 }) }, "H"))
    assert.same({}, storm.of(window.artifact {}, "H"))
  end)

  it("says where the compilations are, most first, at most five namespaces", function()
    local rows = { window.row("Dynamic", 500, { namespace = "dynamicClass", n = 900 }) }
    for i = 1, 6 do rows[#rows + 1] = window.row("m" .. i, 1, { namespace = "N" .. i, n = i }) end
    local list = storm.of(window.artifact(rows, { dynamic = 900 }), "H1")
    assert.equal(1, #list)
    local s = list[1]
    assert.same({ "jit.storm", 5, "dynamicClass", 900, "compilations", "H1", "N6", 6 }, {
      s.signal, #s.buckets, s.buckets[1].key, s.buckets[1].magnitude, s.buckets[1].unit, s.buckets[1].handle, s.buckets[2].key,
      s.buckets[2].magnitude,
    })
    assert.equal("921 compilations took 506 ms; in the busiest second 921 of them and 51 % of a core. Most are of dynamicClass "
      .. "(900 dynamic methods in all).", s.summary)
    assert.equal(0.506, s.salience)
    assert.same({ "query_snapshot", "topMethods", "H1" }, {
      s.nextAction.nextTool, s.nextAction.suggestedArguments.view, s.nextAction.suggestedArguments.handle })
  end)

  it("is never more salient than 1", function()
    assert.equal(1, storm.of(window.artifact { window.row("a", 5000, { n = 9000 }) })[1].salience)
  end)
end)
