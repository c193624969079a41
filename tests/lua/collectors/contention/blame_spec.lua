-- SPDX-License-Identifier: MIT
-- Owners of locks: whose time it was that others waited, and what tells where that owner was.
local blame = require("collectors.contention.blame")

local LOCK <const> = 0x10
local END <const> = 1000000000000

-- Stacks by number: a whole one of each method, with the machinery that .NET 10 shows above it.
local function stack(...)
  local frames = {}
  for i, name in ipairs { ... } do frames[i] = { name = name, module = "app" } end
  return { frames = frames }
end
local STACKS <const> = {
  stack("System.Threading.Monitor.Enter_Slowpath(object)", "App.Wait()"), stack("App.Hold()"), stack("App.Other()"),
  stack("System.Threading.Monitor.TryEnter(object,int32)", "App.Try()"),
}
local WAIT <const>, HOLD <const>, OTHER <const>, TRY <const> = 1, 2, 3, 4

local function contention(thread, owner, from, to, more)
  local c = { start_ns = from, stop_ns = to, thread = thread, owner = owner, lock = LOCK, stack = WAIT }
  for k, v in pairs(more or {}) do c[k] = v end
  return c
end

local function owners(contentions, sightings, options)
  local all = {}
  for _, c in ipairs(contentions) do all[#all + 1] = { at_ns = c.start_ns, thread = c.thread, stack = c.stack, lock = c.lock } end
  for _, s in ipairs(sightings or {}) do all[#all + 1] = { at_ns = s[1], thread = s[2], stack = s[3] } end
  local given = { end_ns = END, stacks = STACKS, ids_are_threads = true }
  for k, v in pairs(options or {}) do given[k] = v end
  return blame.of(contentions, all, given)[LOCK]
end

local function brief(lock)
  local list = {}
  for i, b in ipairs(lock.owners) do list[i] = { b.evidence, b.site.method, b.blocked_ns, b.tenures, b.late_ns } end
  return list
end

describe("collectors.contention.blame", function()
  it("puts the time of a wait to the owner that the runtime names", function()
    local lock = owners { contention(2, 1, 100, 400), contention(2, 1, 500, 600) }
    assert.same({ { "none", "(unknown)", 400, 2 } }, brief(lock))
    assert.same({ 1 }, lock.owners[1].owners)
    assert.equal(400, lock.blocked_ns)
  end)

  it("passes the blame on with the lock: who has waited for it owns it next", function()
    local lock = owners { contention(2, 1, 0, 100), contention(3, 1, 0, 250) }
    -- 1 makes both wait for 100, then 2 makes 3 wait for 150
    assert.same({ { "none", "(unknown)", 200, 1 }, { "acquired", "App.Wait()", 150, 1, 0 } }, brief(lock))
    assert.equal(350, lock.blocked_ns)
  end)

  it("says `earlier` and by how much when nobody waited yet as the owner got the lock", function()
    local lock = owners { contention(2, 1, 0, 100), contention(3, 2, 140, 200) }
    assert.same({ { "none", "(unknown)", 100, 1 }, { "earlier", "App.Wait()", 60, 1, -40 } }, brief(lock))
    local long_ago = owners { contention(2, 1, 0, 100), contention(3, 2, 100 + 2 * blame.NEAR_NS, 150 + 2 * blame.NEAR_NS) }
    assert.equal("none", long_ago.owners[1].evidence)
  end)

  it("prefers what the owner did while others waited, and says how late that is", function()
    local lock = owners({ contention(2, 1, 0, 100), contention(3, 1, 0, 250) }, { { 30, 1, HOLD }, { 60, 1, OTHER }, { 240, 2, OTHER } })
    assert.same({ { "holding", "App.Hold()", 200, 1, 30 }, { "holding", "App.Other()", 150, 1, 140 } }, brief(lock))
  end)

  it("takes the owner's next event when there is nothing better, unless it is long after", function()
    assert.same({ { "later", "App.Hold()", 100, 1, 130 } }, brief(owners({ contention(2, 1, 0, 100) }, { { 130, 1, HOLD } })))
    local late = owners({ contention(2, 1, 0, 100) }, { { 101 + blame.NEAR_NS, 1, HOLD } })
    assert.equal("none", late.owners[1].evidence)
  end)

  it("does not take waiting for the same lock for holding it, but waiting for another one", function()
    local same = owners { contention(2, 1, 0, 100), contention(1, 2, 120, 150) }
    assert.equal("none", same.owners[1].evidence)
    local other = owners { contention(2, 1, 0, 100), contention(1, 9, 20, 80, { lock = 0x20, stack = HOLD }) }
    assert.same({ "holding", "App.Hold()", 100, 1, 20 }, brief(other)[1])
  end)

  it("does not believe that one who waits is the owner", function()
    -- 3 was told the owner before 1 handed on to 2, who now waits again
    local lock = owners { contention(2, 1, 0, 100), contention(2, 3, 110, 200), contention(4, 2, 120, 200) }
    assert.same({ 1 }, lock.owners[2].owners)
    assert.same({ 3 }, lock.owners[1].owners)
    assert.equal(170, lock.owners[1].blocked_ns)
  end)

  it("does not give the lock to one whose attempt may have timed out", function()
    local lock = owners { contention(2, 1, 0, 100, { stack = TRY }), contention(3, 1, 0, 300) }
    assert.same({ { "none", "(unknown)", 400, 1 } }, brief(lock))
  end)

  it("counts those who still wait until the window's end", function()
    local open = contention(2, 1, 700, 0)
    open.stop_ns = nil
    local lock = owners({ open }, {}, { end_ns = 1000 })
    assert.same({ { "none", "(unknown)", 300, 1 } }, brief(lock))
  end)

  it("keeps to what is known when owners are named by other ids than threads", function()
    local lock = owners({ contention(2, 3, 0, 100), contention(4, 3, 20, 300) }, { { 50, 3, HOLD } }, { ids_are_threads = false })
    assert.same({ { "acquired", "App.Wait()", 200, 1, 0 }, { "none", "(unknown)", 180, 1 } }, brief(lock))
  end)

  it("adds all waiting up, whatever the order of the rows, ties and empty contentions included", function()
    local list, sum = {}, 0
    for i = 1, 200 do
      local from = (i * 7919) % 1000
      local to = from + (i * 31) % 50
      list[i] = contention(i, (i * 13) % 5 + 1000, from, to)
      sum = sum + to - from
    end
    local lock = owners(list)
    assert.equal(sum, lock.blocked_ns)
    assert.is_true(#lock.owners <= blame.MAX_OWNERS)
  end)

  it("merges tenures with the same evidence and stack, and shows the median and the latest", function()
    local list, seen = {}, {}
    for i = 0, 4 do
      list[#list + 1] = contention(2, 1, 1000 * i, 1000 * i + 500)
      seen[#seen + 1] = { 1000 * i + 10 * (i + 1), 1, HOLD }
    end
    local lock = owners(list, seen)
    assert.same({ { "holding", "App.Hold()", 2500, 5, 30 } }, brief(lock))
    assert.equal(50, lock.owners[1].max_late_ns)
  end)
end)
