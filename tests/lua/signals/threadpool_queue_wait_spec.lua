-- SPDX-License-Identifier: MIT
-- threadpool.queue-wait: the time in the queue that was measured, when it is long.
local queue_wait = require("signals.threadpool_queue_wait")
local window = require("support.pool_window")

local function of(n, p50, p95, open)
  return queue_wait.of(window.artifact {
    waits = { pairs = n, unmatched = 0, dropped = 0, open = open or 0, ms = { p50 = p50, p95 = p95, max = p95 * 1.5 } },
  }, "H1")
end

describe("signals.threadpool_queue_wait", function()
  it("is silent for short waits, for few items, and without any", function()
    assert.same({}, of(1000, 5, 249))
    assert.same({}, of(9, 900, 2000))
    assert.same({}, queue_wait.of(window.artifact(), "H1"))
    assert.equal(1, #of(10, 5, 250))
  end)

  it("says how long, and how many still wait", function()
    local s = of(28, 1821.4, 4228.2, 30)[1]
    assert.equal("Half of 28 work items waited 1821 ms or more for a pool thread, one in twenty 4228 ms or more; 30 more still wait.",
      s.summary)
    assert.same({ "threadpool.queue-wait", 1, "p50", 1821, "ms", "H1", 6342 }, {
      s.signal, s.salience, s.buckets[1].key, s.buckets[1].magnitude, s.buckets[1].unit, s.buckets[1].handle, s.buckets[3].magnitude })
    assert.equal("workItemOrigins", s.nextAction.suggestedArguments.view)
    assert.matches("400 ms or more%.$", of(28, 5, 400)[1].summary)
    assert.equal(0.4, of(28, 5, 400)[1].salience)
  end)
end)
