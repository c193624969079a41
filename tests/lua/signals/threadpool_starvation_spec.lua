-- SPDX-License-Identifier: MIT
-- threadpool.starvation: only what the runtime itself called starvation or blocking.
local starvation = require("signals.threadpool_starvation")
local window = require("support.pool_window")

describe("signals.threadpool_starvation", function()
  it("is silent for growth, for queued work and for unknown reasons", function()
    assert.same({}, starvation.of(window.artifact {
      counts = { { 0, 2 }, { 1, 90 } }, adjustments = { { 0.1, 3, 50 }, { 0.2, 17, 90 }, { 0.3, nil, 91 } }, enqueued = 9000, dequeued = 10,
    }, "H"))
    assert.same({}, starvation.of(window.artifact(), "H"))
  end)

  it("names the reasons, their share and who queued most", function()
    local list = starvation.of(window.artifact {
      adjustments = { { 1, 0, 2 }, { 2, 6, 3 }, { 3, 6, 4 }, { 4, 8, 5 } }, enqueued = 400,
      origins = { { 380, "System.Threading.ThreadPool.Queue", "App.Feeder.Push" }, { 20, "App.Other" } },
    }, "H1")
    assert.equal(1, #list)
    local s = list[1]
    assert.same({ "threadpool.starvation", 0.75 }, { s.signal, s.salience })
    assert.equal("3 of 4 changes of the pool's size were made for starvation or blocked pool threads; most work was queued by "
      .. "App.Feeder.Push (380 of 400).", s.summary)
    assert.same({ "Starvation", 2, "adjustments", "H1", "CooperativeBlocking", 1 }, {
      s.buckets[1].key, s.buckets[1].magnitude, s.buckets[1].unit, s.buckets[1].handle, s.buckets[2].key, s.buckets[2].magnitude })
    assert.equal("hillClimbing", s.nextAction.suggestedArguments.view)
  end)

  it("needs no origins", function()
    local s = starvation.of(window.artifact { adjustments = { { 1, 8, 3 } } })[1]
    assert.same({ "1 of 1 changes of the pool's size were made for blocked pool threads.", 1 }, { s.summary, s.salience })
  end)
end)
