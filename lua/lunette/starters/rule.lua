-- SPDX-License-Identifier: MIT
-- The starter of a rule: a threshold on a counter, a hypothesis, evidence for and against, the next step.
return { name = "^[%l][%l%d-]*$", name_note = "small letters, digits and -", recording = true, files = {
  { "rules/%NAME%.lua", [==[
-- What a triage observes, and what it may mean. lunette explain PID|FILE shows which rules fired and which nearly did;
-- lunette docs declarations tells every field.
return rule {
  name = "site.%NAME%",
  input = { counter = "System.Runtime/threadpool-queue-length", stat = "max" }, -- what it looks at
  unit = "items",
  levels = { elevated = 20, critical = 500 },                                    -- from which value on
  summary = "Up to {value} work items waited for a thread.",
  rationale = "Here 20 waiting items are already felt: requests come in bursts.", -- why this threshold
  next = {
    tool = "collect_events", arguments = { kind = "threadpool", durationSeconds = 10 }, reason = "See how the pool grows.",
  },
  hypotheses = {
    {
      name = "site.%NAME%-blocked",
      summary = "Threads of the pool are held by something that blocks; what it is, counters cannot tell.",
      confidence = "low",
      -- it is more likely when little CPU is used ...
      stronger = {
        confidence = "medium",
        when = { { input = "cpu", at_most = 30, unit = "%", rationale = "The processors are nearly idle." } },
      },
      -- ... and less when the garbage collector has the CPU
      contradicts = { { input = "gc_time", at_least = 30, unit = "%", rationale = "The collector stops the threads." } },
      next = { tool = "collect_events", arguments = { kind = "contention", durationSeconds = 10 }, reason = "See whether they wait." },
    },
  },
}
]==] },
  { "specs/%NAME%_spec.lua", [==[
-- lunette test %DIR%
-- recordings/demo.nettrace is fifteen seconds of a service that blocks its threads; put one of your own beside it.
local t = require("lunette.testing")
local QUEUE <const> = "System.Runtime/threadpool-queue-length"

describe("rule %NAME%", function()
  it("fires on a long queue, and says how long", function()
    local judged = t.judge { [QUEUE] = { 3, 40, 7 } }
    assert.are.equal("elevated", judged:signal("site.%NAME%").level)
    assert.are.equal("Up to 40 work items waited for a thread.", judged:signal("site.%NAME%").summary)
  end)

  it("is silent below its threshold", function()
    assert.is_nil((t.judge { [QUEUE] = { 3, 19, 7 } }):signal("site.%NAME%"))
  end)

  it("sees the blocked threads of the recording", function()
    local judged = t.judge("demo.nettrace")
    assert.is_table(judged:signal("site.%NAME%"))
    assert.are.equal("medium", judged:hypothesis("site.%NAME%-blocked").confidence)
  end)
end)
]==] },
} }
