-- SPDX-License-Identifier: MIT
-- within("PAIR"): what happens between the start and the stop of another pair of the same key.
local kit = require("support.framework_kit")
local probe = require("lunette.probe")
local sys = require("lunette.sys")

local R <const> = probe.RUNTIME

local function keep(where)
  return {
    locks = probe.pair { start = "enter", stop = "left", keep = { n = probe.count() } },
    waits = probe.pair { start = "wait", stop = "woke", where = where, keep = { threads = probe.distinct("@thread") } },
  }
end

local function run(file, kept)
  local program = probe.program {
    name = "within", keep = kept, providers = { { name = R, keywords = { "Contention", "WaitHandle" }, level = 5 } },
    events = {
      enter = R .. "/Contention/Start", left = R .. "/Contention/Stop", wait = R .. "/WaitHandleWait/Start",
      woke = R .. "/WaitHandleWait/Stop",
    },
  }
  return probe.run(kit.ctx(), program, { path = sys.home .. "/tests/data/recordings/" .. file .. ".nettrace" })
end

describe("lunette.probe within()", function()
  it("tells the waits inside a contention from those beside it", function()
    for _, file in ipairs { "holds", "net9-holds" } do
      local inside = assert(run(file, keep('within("locks")')))
      assert.same({ 10, 10, 1 }, { inside.locks.pairs, inside.waits.pairs, inside.waits.threads.n }, file)
      local beside = assert(run(file, keep('not within("locks")')))
      assert.same({ 10, 5, 1 }, { beside.locks.pairs, beside.waits.pairs, beside.waits.threads.n }, file)
    end
  end)

  it("is false where the pair never opened", function()
    assert.equal(12, assert(run("net9-waits", keep('not within("locks")'))).waits.pairs)
  end)

  it("refuses a name that is no pair of the top, and what is no name", function()
    local _, err = run("holds", keep('within("lock")'))
    assert.matches("the program keeps no pair 'lock' at its top", tostring(err), 1, true)
    _, err = run("holds", keep("within(@thread)"))
    assert.matches("takes the name of a pair as a text", tostring(err), 1, true)
  end)

  it("is refused in the keys of a pair: it would ask for itself without end", function()
    local locks = probe.pair { start = "enter", stop = "left", by = 'if(within("locks"), 1, 2)' }
    local _, err = run("holds", { locks = locks })
    assert.matches("locks: within() cannot be part of a pair's keys", tostring(err), 1, true)
  end)
end)
