-- SPDX-License-Identifier: MIT
-- What a window of waits becomes: sites, the ranking of where threads wait, those who have nothing to do, those who still wait.
local notes_of = require("collectors.wait_handles.notes")
local wire = require("collectors.wait_handles.wire")

local MS <const> = 1000000
local END <const> = 10000 * MS

local function stack(...)
  local frames = {}
  for i, name in ipairs { ... } do
    frames[i] = { name = name ~= "" and name or nil, module = name ~= "" and "m" or nil, address = "0x1" }
  end
  return { frames = frames }
end

local STACKS <const> = {
  stack("App.A()"), stack("App.B()"), stack("System.Threading.TimerQueue.TimerThread()"), stack(""), stack(""),
  stack("System.Threading.WaitHandle.WaitOneNoCheck()", "System.Threading.WaitHandle.WaitOne()", "App.A()", "App.Main()"),
}
local A <const>, B <const>, TIMER <const>, NAMELESS <const>, NAMELESS_TOO <const>, WHOLE_A <const> = 1, 2, 3, 4, 5, 6

local function row(at, n, total_ms, more)
  local r = {
    stack = at, source = 0, total = total_ms * MS, threads = { n = 1 },
    time = { n = n, p50 = total_ms * MS / n, p95 = total_ms * MS / n, max = total_ms * MS / n },
  }
  for k, v in pairs(more or {}) do r[k] = v end
  return r
end

--- What the engine gives, with some parts replaced.
local function result(more)
  more = more or {}
  local n, total = 0, 0
  for _, r in ipairs(more.sites or {}) do n, total = n + r.time.n, total + r.total end
  return {
    stacks = STACKS, notes = {}, inside = { pairs = more.inside or 0, total = 0 },
    waits = {
      pairs = n, unmatched = more.before or 0, total = total, time = { n = n, p50 = 1 * MS, p95 = 2 * MS, max = 3 * MS },
      threads = { n = 2 }, by_source = { rows = more.sources or {} }, by_site = { rows = more.sites or {}, other = more.other },
      by_stack = { rows = more.stacks or {} }, open_rows = more.open or {},
    },
    locks = { pairs = 0, by_site = { rows = more.locks or {} }, open_rows = more.open_locks or {} },
  }
end

local function artifact(more)
  local made = result(more)
  local a = wire.artifact(made, END)
  a.process_id, a.started_unix_ms, a.duration_ms, a.origin = 42, 1764484800000, 10000, "live"
  a.notes = notes_of.of(made, a, false)
  return a
end

local function where(a)
  local list = {}
  for i, r in ipairs(wire.where(a)) do list[i] = { r.reason, r.callSiteMethod, r.waits, r.share } end
  return list
end

describe("collectors.wait_handles.wire", function()
  it("ranks waits and contention by time, and puts those who wait for want of work last, without a share", function()
    local a = artifact {
      sites = { row(TIMER, 9, 9000), row(A, 4, 100), row(B, 2, 200, { source = 1 }) }, locks = { row(A, 5, 700) },
    }
    assert.same({ { "LockContention", "App.A()", 5, 0.7 }, { "MonitorWait", "App.B()", 2, 0.2 }, { "WaitHandle", "App.A()", 4, 0.1 },
      { "WaitHandle", "System.Threading.TimerQueue.TimerThread()", 9 } }, where(a))
    assert.equal(1000 * MS, wire.busy_ns(a))
    assert.is_true(wire.where(a)[4].idle)
    assert.is_nil(wire.where(a)[1].idle)
    assert.matches("Idle: 9 of the waits (9000.0 ms)", table.concat(a.notes, "\n"), 1, true)
  end)

  it("ranks what has not ended by its time so far", function()
    local a = artifact {
      sites = { row(A, 1, 500) },
      open = { { at = END - 2000 * MS, thread = 7, stack = B, source = 0 }, { at = END - 100 * MS, thread = 8, stack = A, source = 0 } },
    }
    local rows = wire.where(a)
    assert.same({ "App.B()", 0, 1, "00:00:02", 0.769 },
      { rows[1].callSiteMethod, rows[1].waits, rows[1].stillWaiting, rows[1].stillWaitingDuration, rows[1].share })
    assert.is_nil(rows[1].maxWaitDuration)
    assert.same({ "App.A()", 1, 1 }, { rows[2].callSiteMethod, rows[2].waits, rows[2].stillWaiting })
    assert.equal(2, a.still)
    assert.matches("StillWaiting: 2 of the waits", table.concat(a.notes, "\n"), 1, true)
  end)

  it("says in one sentence what idled, what still waits, and where the rest waited", function()
    local a = artifact {
      sites = { row(TIMER, 9, 9000), row(A, 1, 500) }, open = { { at = END - 1500 * MS, thread = 7, stack = B, source = 0 } },
    }
    a.process_id, a.duration_ms = 42, 10000
    assert.matches("; 9000.0 ms of it by idle threads of the runtime; 1 more still waits; 75 % of what was not idle at App.B().",
      wire.sentence(a, {}), 1, true)
    a = artifact { sites = { row(A, 1, 500) } }
    a.process_id, a.duration_ms = 42, 10000
    assert.matches("; 100 % of it at App.A().", wire.sentence(a, {}), 1, true)
  end)

  it("counts a wait inside contention that has not ended with the contention only", function()
    local a = artifact {
      open = { { at = 5010 * MS, thread = 7, stack = A, source = 0 }, { at = 1000 * MS, thread = 8, stack = B, source = 0 } },
      open_locks = { { at = 5000 * MS, thread = 7, stack = A }, { at = 2000 * MS, thread = 8, stack = B } },
    }
    assert.equal(1, a.still) -- that of thread 8 began before its contention did
    assert.same({ { "WaitHandle", "App.B()", 0, 0.409 }, { "LockContention", "App.B()", 0, 0.364 },
      { "LockContention", "App.A()", 0, 0.227 } }, where(a))
  end)

  it("puts sites without names together", function()
    local a = artifact { sites = { row(NAMELESS, 3, 30), row(NAMELESS_TOO, 2, 40) } }
    assert.equal(1, #a.sites)
    assert.same({ "(unknown)", 5, "00:00:00.0700000" }, { a.sites[1].site.method, a.sites[1].n, wire.call_sites(a)[1].totalWaitDuration })
    assert.matches("NoNames", table.concat(a.notes, "\n"))
  end)

  it("shows the heaviest stack of a site, and the method that it called", function()
    local a = artifact { sites = { row(A, 3, 30) }, stacks = { row(WHOLE_A, 3, 30) } }
    local site = wire.call_sites(a)[1]
    assert.same({ "App.A()", "System.Threading.WaitHandle.WaitOne" }, { site.callSiteMethod, site.waitMethod })
    assert.same({ "System.Threading.WaitHandle.WaitOneNoCheck()", "System.Threading.WaitHandle.WaitOne()", "App.A()", "App.Main()" },
      site.stack)
  end)

  it("names the sources, and those that it does not know by number", function()
    local a = artifact { sources = { row(nil, 1, 1, { source = 7 }), row(nil, 2, 2, { source = 1 }), row(nil, 3, 3) } }
    local names = {}
    for i, r in ipairs(wire.sources(a)) do names[i] = { r.source, r.waits } end
    assert.same({ { "MonitorWait", 2 }, { "WaitHandle", 3 }, { "source 7", 1 } }, names)
  end)

  it("keeps some sites at Summary and all behind it", function()
    local sites = {}
    for i = 1, wire.INLINE_SITES + 3 do sites[i] = row(i % 2 == 0 and A or B, 1, i, { source = i }) end
    local a = artifact { sites = sites, other = { keys = 4 } }
    assert.equal(wire.INLINE_SITES, #wire.snapshot(a, false).callSites)
    assert.equal(wire.INLINE_SITES + 3, #wire.snapshot(a, true).callSites)
    assert.matches("GroupLimit: 4 more call sites of waits", table.concat(a.notes, "\n"), 1, true)
  end)
end)
