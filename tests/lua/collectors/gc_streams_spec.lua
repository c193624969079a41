-- SPDX-License-Identifier: MIT
-- GC measurement v2: which events make a collection, which a suspension, and what is said when some are missing.
local durations = require("collectors.gc.durations")
local kit = require("support.gc_kit")

local MS <const> = kit.MS
local join, blocking, run = kit.join, kit.blocking, kit.run

local function has(list, word)
  for _, w in ipairs(list) do
    if w == word then return true end
  end
  return false
end

describe("collectors.gc.durations", function()
  it("gives percentiles within the stated error, and the exact sum and maximum", function()
    local d = durations.new()
    for i = 1, 10000 do d:add(i * 1000) end
    assert.same({ 10000, 50005000000, 10000000 }, { d.n, d.sum_ns, d.max_ns })
    for _, p in ipairs { 1, 50, 95, 99, 100 } do
      local exact = 10000 * p // 100 * 1000
      assert.is_true(math.abs(d:percentile(p) - exact) <= exact * durations.ERROR + 1, ("p%d: %d"):format(p, d:percentile(p)))
    end
  end)

  it("knows powers of two, small numbers and nothing", function()
    assert.is_nil(durations.new():percentile(50))
    for _, n in ipairs { 0, 1, 63, 64, 127, 128, 1 << 20, (1 << 20) - 1, (1 << 40) + 1, 1 << 52 } do
      local d = durations.new()
      d:add(n)
      local got = d:percentile(50)
      assert.is_true(got <= n and n - got <= n / 64, ("%d: %d"):format(n, got))
    end
  end)
end)

describe("collectors.gc suspension stream", function()
  it("measures from the end of SuspendEE to the begin of RestartEE, both tails apart", function()
    local s = run(blocking(1, 10, 3)).suspensions
    assert.same({ "available", { "no-detected-loss" } }, { s.status, s.quality })
    assert.same({ 1, 3 * MS }, { s.pause.n, s.pause.sum_ns })
    assert.near(0.1 * MS, s.acquire.sum_ns, 1)
    assert.near(0.2 * MS, s.restart.sum_ns, 1)
    assert.same({ start_ns = 10100000, end_ns = 13100000, reason = 1, count = 0, reliable = true }, s.rows[1])
  end)

  it("counts suspensions with reason 1 or 6 only", function()
    local marks = {}
    for reason = 0, 8 do
      local ms = reason * 10
      marks = join(marks, { { "begin", ms, { reason = reason, count = 0xffffffff } }, { "suspended", ms + 1 }, { "restart", ms + 2 },
        { "resumed", ms + 3 } })
    end
    local s = run(marks).suspensions
    assert.same({ 2, 2 * MS, 7, "available" }, { s.pause.n, s.pause.sum_ns, s.other, s.status })
    assert.same({ 1, 6 }, { s.rows[1].reason, s.rows[2].reason })
    assert.is_nil(s.rows[1].count) -- 0xffffffff is no count
    assert.same({ 2, 2 }, { s.acquire.n, s.restart.n })
  end)

  it("matches the begin by thread, since two may begin before one holds the lock", function()
    local s = run({
      { "begin", 1, { thread = 7, reason = 0 } }, { "begin", 2, { thread = 8, reason = 1 } }, { "suspended", 3, { thread = 8 } },
      { "restart", 5, { thread = 8 } }, { "suspended", 6, { thread = 7 } }, { "resumed", 6.5, { thread = 8 } },
      { "restart", 16, { thread = 7 } }, { "resumed", 17, { thread = 7 } },
    }).suspensions
    assert.same({ "available", 1, 2 * MS, 1 }, { s.status, s.pause.n, s.pause.sum_ns, s.other })
    assert.near(1.5 * MS, s.restart.sum_ns, 1)
  end)

  it("takes a restart by another thread than the one that suspended", function()
    local s = run({ { "begin", 1, { reason = 1 } }, { "suspended", 2 }, { "restart", 5, { thread = 9 } },
      { "resumed", 6, { thread = 9 } } })
    assert.same({ "available", 3 * MS, 1 * MS },
      { s.suspensions.status, s.suspensions.pause.sum_ns, s.suspensions.restart.sum_ns })
  end)

  it("leaves a suspension without an end open, also when the collection ended", function()
    local s = run(join(blocking(1, 0, 2), { { "begin", 10, { reason = 1 } }, { "suspended", 11 },
      { "start", 12, { count = 2, depth = 0, type = 0 } }, { "stop", 13, { count = 2 } } }))
    assert.equal(2, s.collections.total)
    local open = s.suspensions.rows[2]
    assert.same({ 11 * MS, false }, { open.start_ns, open.reliable })
    assert.is_nil(open.end_ns)
    assert.same({ 1, 2 * MS, "degraded" }, { s.suspensions.pause.n, s.suspensions.pause.sum_ns, s.suspensions.status })
    assert.is_true(has(s.suspensions.quality, "censored-end"))
  end)

  it("calls what the window's start cut off censored, not lost", function()
    for _, cut in ipairs { { { "restart", 1 }, { "resumed", 2 } }, { { "suspended", 1 }, { "restart", 2 }, { "resumed", 3 } },
      { { "resumed", 1 } } } do
      local s = run(join(cut, blocking(2, 10, 3))).suspensions
      assert.same({ 1, 3 * MS }, { s.pause.n, s.pause.sum_ns })
      assert.same(#cut > 1 and "degraded" or "available", s.status)
      assert.equal(#cut > 1, has(s.quality, "censored-start"))
    end
  end)

  it("gives no numbers after an event was lost in the middle", function()
    local whole = join(blocking(1, 0, 2), blocking(2, 10, 2), blocking(3, 20, 2))
    for lost, mark in ipairs(whole) do
      if mark[1] == "suspended" or mark[1] == "restart" then
        local marks = {}
        for i, m in ipairs(whole) do
          if i ~= lost then marks[#marks + 1] = m end
        end
        local s = run(marks).suspensions
        if mark[1] == "restart" and lost > 12 then
          assert.same({ "degraded", 4 * MS }, { s.status, s.pause.sum_ns }) -- cannot be told from a window that ended early
        else
          assert.same({ "unavailable", true }, { s.status, has(s.quality, "ambiguous-pairing") }, mark[1] .. lost)
        end
      end
    end
  end)

  it("gives no numbers after loss, with two runtimes in one process, or without a reason in the events", function()
    assert.same({ "unavailable", { "transport-loss" } }, (function(s) return { s.status, s.quality } end)(
      run(blocking(1, 0, 2), { lost = 3 }).suspensions))
    assert.same({ "collector-loss" }, run(blocking(1, 0, 2), { dropped = 3 }).suspensions.quality)
    local two = run(join(blocking(1, 0, 2), { { "begin", 5, { clr = 9, reason = 1 } }, { "suspended", 6, { clr = 9 } },
      { "restart", 7, { clr = 9 } } })).suspensions
    assert.same({ "unavailable", true }, { two.status, has(two.quality, "multiple-clr-instances") })
    local old = run({ { "begin", 1 }, { "suspended", 2 }, { "restart", 3 } }).suspensions
    assert.same({ "unavailable", { "missing-metadata" } }, { old.status, old.quality })
  end)

  it("says when collections came without suspensions, and trusts an empty window only when it is live", function()
    local s = run({ { "start", 1, { count = 1, depth = 0, type = 0 } }, { "stop", 2, { count = 1 } } })
    assert.same({ "unavailable", { "no-suspension-events" } }, { s.suspensions.status, s.suspensions.quality })
    assert.equal(1, s.collections.total)
    assert.same({ "available", 0 }, { run({}).suspensions.status, run({}).suspensions.pause.n })
    assert.same({ "no-gc-events" }, run({}, { recorded = true }).suspensions.quality)
  end)

  it("keeps the first rows, counts the rest, and ranks and buckets all of them", function()
    local marks = {}
    local long = { [27] = 1.5, [28] = 15, [29] = 150, [30] = 1500 }
    for i = 1, 30 do marks = join(marks, blocking(i, i * 5000, long[i] or 0.5)) end
    local s = run(marks, nil, 3)
    assert.same({ 3, 27, 30 }, { #s.suspensions.rows, s.suspensions.dropped, s.suspensions.pause.n })
    assert.same({ 26, 1, 1, 1, 1 }, s.suspensions.buckets)
    assert.same({ "available", { "interval-detail-capped" } }, { s.suspensions.status, s.suspensions.quality })
    assert.same({ 3, 27, 30 }, { #s.collections.rows, s.collections.dropped, s.collections.total })
    assert.equal(1500 * MS, s.suspensions.pause.max_ns)
    assert.equal(30, #s.suspensions.longest)
  end)

  it("keeps the longest phases of more than it can hold", function()
    local paused = require("collectors.gc.suspensions")
    local marks, n = {}, paused.MAX_LONGEST + 200
    for i = 1, n do marks = join(marks, blocking(i, i * 1000, 1 + i * 7919 % n)) end -- every length from 1 to n once, out of order
    local longest = run(marks, nil, 1).suspensions.longest
    local least = math.maxinteger
    for _, row in ipairs(longest) do least = math.min(least, row.end_ns - row.start_ns) end
    assert.same({ paused.MAX_LONGEST, 201 * MS }, { #longest, least })
  end)
end)

describe("collectors.gc collection stream", function()
  it("pairs by Count and ClrInstanceID", function()
    local c = run({
      { "start", 1, { count = 1, depth = 2, reason = 1, type = 0 } },
      { "start", 2, { count = 1, clr = 5, depth = 0, reason = 0, type = 0 } },
      { "stop", 3, { count = 1, clr = 5 } }, { "stop", 5, { count = 1 } },
    }).collections
    assert.same({ 2, 5 * MS, 4 * MS }, { c.total, c.elapsed.sum_ns, c.elapsed.max_ns })
    assert.same({ [0] = 1, [2] = 1 }, c.generations)
    assert.same({ Induced = 1, AllocSmall = 1 }, c.reasons)
    assert.same({ "Induced", "AllocSmall" }, { c.rows[1].reason, c.rows[2].reason })
  end)

  it("orders rows by their start, with a foreground collection inside a background one", function()
    local c = run({
      { "begin", 0, { reason = 1 } }, { "suspended", 1 }, { "start", 2, { count = 4, depth = 2, reason = 1, type = 1 } }, { "restart", 3 },
      { "begin", 4, { reason = 1 } }, { "suspended", 5 }, { "start", 6, { count = 5, depth = 1, reason = 0, type = 2 } },
      { "stop", 8, { count = 5 } }, { "restart", 9 }, { "begin", 10, { reason = 6 } }, { "suspended", 11 }, { "restart", 12 },
      { "stop", 20, { count = 4 } },
    }).collections
    assert.same({ "BackgroundGC", "ForegroundGC" }, { c.rows[1].type, c.rows[2].type })
    assert.same({ 1, 1, 0 }, { c.buckets.background.n, c.buckets.gen1.n, c.buckets.gen2.n })
    assert.equal((18 - 1 - 4 - 1) * MS, c.concurrent_ns) -- its 18 ms without what stood still meanwhile
    assert.same({ "no-detected-loss" }, c.quality)
  end)

  it("calls a collection that was planned as background and ran blocking what it was", function()
    local c = run(blocking(1, 0, 20, { depth = 2, type = 1 })).collections
    assert.same({ "NonConcurrentGC", 1, 1, 0 }, { c.rows[1].type, c.replanned, c.buckets.gen2.n, c.buckets.background.n })
  end)

  it("tells what the window cut off from what was lost", function()
    local function quality(marks) return run(marks).collections.quality end
    assert.same({ "censored-start" }, quality(join({ { "stop", 1, { count = 6 } } }, blocking(7, 5, 1))))
    assert.same({ "censored-start" }, quality(join(blocking(7, 5, 1), { { "stop", 9, { count = 6 } } }))) -- a background one
    assert.same({ "pairing-loss" }, quality(join(blocking(7, 5, 1), { { "stop", 9, { count = 8 } } })))
    assert.same({ "censored-end" }, quality(join(blocking(7, 5, 1), { { "start", 9, { count = 8, depth = 0, type = 0 } } })))
    assert.same({ "pairing-loss" }, quality(join({ { "start", 1, { count = 6, depth = 0, type = 0 } } }, blocking(7, 5, 1))))
    assert.same({ "censored-end" },
      quality(join({ { "start", 1, { count = 6, depth = 2, type = 1 } } }, blocking(7, 5, 1, { type = 2 }))))
    assert.same({ "pairing-loss" },
      quality(join({ { "start", 1, { count = 6, depth = 2, type = 1 } } }, blocking(7, 5, 1, { depth = 2 }))))
    assert.same({ "pairing-loss" }, quality(join({ { "start", 1, { count = 7, depth = 0, type = 0 } } }, blocking(7, 5, 1))))
  end)

  it("keeps its totals when rows are over the cap, and does not touch the suspensions", function()
    local marks = {}
    for i = 1, 10 do marks = join(marks, blocking(i, i * 10, 2, { depth = i % 3 })) end
    local s = run(marks, nil, 1)
    local c = s.collections
    assert.same({ 10, { [0] = 3, 4, 3 }, 1, 9 }, { c.total, c.generations, #c.rows, c.dropped })
    assert.same({ "available", 20 * MS }, { s.suspensions.status, s.suspensions.pause.sum_ns })
    local without = {}
    for _, m in ipairs(marks) do
      if m[1] ~= "start" or m[3].count % 2 == 0 then without[#without + 1] = m end
    end
    local lossy = run(without)
    assert.same({ 5, "pairing-loss" }, { lossy.collections.total, lossy.collections.quality[1] })
    assert.same({ "available", 20 * MS }, { lossy.suspensions.status, lossy.suspensions.pause.sum_ns })
  end)

  it("survives nonsense: unknown reasons, no count, counts without end", function()
    local s = run({ { "start", 1, { count = 1, depth = 9, reason = 99, type = 7 } }, { "stop", 2, { count = 1 } }, { "start", 3 },
      { "stop", 4 } })
    local row = s.collections.rows[1]
    assert.same({ "Unknown", "Type7", 4 }, { row.reason, row.type, row.generation })
    assert.same({ "missing-metadata" }, s.collections.quality)
    local marks = {}
    for i = 1, 1000 do marks[i] = { "start", i, { count = i, depth = 0, type = 0 } } end
    assert.is_true(run(marks).collections.lost >= 990)
    for i = 1, 10000 do marks[i] = { "begin", i, { thread = i, reason = 1 } } end
    assert.equal("unavailable", run(marks).suspensions.status)
  end)
end)

describe("collectors.gc streams of noise", function()
  local NAMES <const> = { "start", "stop", "resumed", "restart", "suspended", "begin", "triggered" }

  it("stay within bounds and never claim more than there was time", function()
    math.randomseed(7)
    for _ = 1, 60 do
      local marks, at = {}, 0
      for i = 1, 400 do
        at = at + math.random(0, 3) - (i % 50 == 0 and 5 or 0) -- now and then out of order
        marks[i] = { NAMES[math.random(#NAMES)], math.max(0, at), {
          thread = math.random(3), clr = math.random(30) == 1 and math.random(99) or 0, type = math.random(0, 2),
          count = math.random(4) > 1 and math.random(20) or nil, depth = math.random(0, 9), reason = math.random(0, 9),
        } }
      end
      local s = run(marks, nil, 10)
      assert.is_true(s.suspensions.pause.sum_ns <= at * MS + 5 * MS * 400)
      assert.is_true(#s.suspensions.rows <= 10 and #s.collections.rows <= 10)
      assert.is_true(s.suspensions.status == "unavailable" or s.suspensions.ambiguous == 0)
      local n = 0
      for _, count in pairs(s.collections.generations) do n = n + count end
      assert.equal(s.collections.total, n)
    end
  end)

  it("tells sixteen runtimes apart, and no more", function()
    local marks = {}
    for i = 1, 3000 do marks[i] = { "begin", i, { clr = i, thread = i, reason = 1 } } end
    for i = 1, 3000 do marks[#marks + 1] = { "start", 3000 + i, { clr = i, count = i, depth = 0, type = 0 } } end
    local s = require("collectors.gc.streams").new(10)
    for _, m in ipairs(marks) do s:add(kit.mark(m[1], m[2], m[3])) end
    assert.same({ 16, 16 }, { s.suspensions.n_instances, s.collections.n_instances })
    assert.equal("unavailable", s:finish(kit.CLEAN).suspensions.status)
  end)
end)

describe("collectors.gc streams of recordings", function()
  it("finds the 20 collections of gcs, 15 induced, all blocking", function()
    local s = kit.replay("gcs")
    local c = s.collections
    assert.same({ 20, { [0] = 9, 5, 6 }, { Induced = 15, AllocSmall = 5 }, { "no-detected-loss" } },
      { c.total, c.generations, c.reasons, c.quality })
    assert.same({ "available", 20 }, { s.suspensions.status, s.suspensions.pause.n })
    for i, row in ipairs(c.rows) do -- each collection within its suspension
      local phase = s.suspensions.rows[i]
      assert.is_true(phase.start_ns < row.start_ns and row.end_ns < phase.end_ns)
      assert.equal(row.number - 1, phase.count)
    end
  end)

  it("finds the 5 background collections of bgc with two suspensions each", function()
    local s = kit.replay("bgc")
    assert.same({ 5, 5, 10, "available" },
      { s.collections.total, s.collections.buckets.background.n, s.suspensions.pause.n, s.suspensions.status })
    assert.is_true(s.suspensions.pause.sum_ns * 2 < s.collections.elapsed.sum_ns)
    assert.near(s.collections.elapsed.sum_ns - s.collections.concurrent_ns, s.suspensions.pause.sum_ns, 2 * MS)
  end)

  it("finds the 90 collections of a Server GC, whose threads hand over to each other", function()
    local s = kit.replay("datas")
    assert.same({ 90, { [0] = 61, 21, 8 }, 7 }, { s.collections.total, s.collections.generations, s.collections.buckets.background.n })
    assert.equal("available", s.suspensions.status)
  end)

  it("gives no wrong number whichever event is missing", function()
    local whole = kit.replay("bgc").suspensions
    for lost = 1, #kit.recorded("bgc") do
      local s = kit.replay("bgc", nil, nil, function(_, i) return i ~= lost end)
      local pause = s.suspensions.pause
      if s.suspensions.status == "available" then
        assert.same({ whole.pause.n, whole.pause.sum_ns }, { pause.n, pause.sum_ns }, lost)
      elseif s.suspensions.status == "degraded" then
        assert.is_true(pause.sum_ns <= whole.pause.sum_ns, lost)
      end
      if s.collections.quality[1] == "no-detected-loss" then assert.equal(5, s.collections.total, lost) end
    end
  end)
end)
