-- SPDX-License-Identifier: MIT
-- The reducer engine over targets that do a known amount of a known thing: the same result from the live session and from its recording,
-- names in stacks, and what goes wrong: the target dies, two sessions, cancellation, a buffer that overflows.
local h = require("harness")
local known = require("known_values")
local probe = require("lunette.probe")

local RUNTIME <const> = probe.RUNTIME
local RUNTIMES <const> = { "net10.0", "net9.0", "net8.0" }
local LONG_MS <const> = 60000 -- longer than any window here: each ends by itself

-- The example of docs/design/probe.md, and the owner of each lock.
local CONTENTION <const> = probe.program {
  name = "contention",
  providers = { { name = RUNTIME, keywords = "Contention", level = 4 } },
  events = { start = RUNTIME .. "/Contention/Start", stop = RUNTIME .. "/Contention/Stop" },
  let = { ms = "@duration / 1e6" },
  keep = {
    waits = probe.pair {
      start = "start", stop = "stop", by = "@thread", where = "start.ContentionFlags == 0",
      keep = {
        time = probe.quantiles("ms", { 50, 95, 99 }),
        sites = probe.group {
          by = { stack = "start.@stack" }, weight = "ms", top = 50, keep = { n = probe.count(), ms = probe.sum("ms") },
        },
        longest = probe.top(20, "ms", { at_ns = "start.@time", thread = "@thread", ms = "ms", stack = "start.@stack" }),
        locks = probe.group { by = { lock = "hex(start.LockID)", owner = "start.LockOwnerThreadID" }, keep = { n = probe.count() } },
      },
    },
  },
}

local EXCEPTIONS <const> = probe.program {
  name = "exceptions",
  providers = { { name = RUNTIME, keywords = "Exception", level = 2 } },
  events = { thrown = RUNTIME .. "/Exception/Start" },
  keep = {
    by_type = probe.group { by = "ExceptionType", keep = {
      n = probe.count(),
      messages = probe.distinct("ExceptionMessage"),
      sites = probe.group {
        by = { stack = "@stack" }, frames = { skip = { "System.Runtime.EH." }, depth = 2 }, keep = { n = probe.count() },
      },
    } },
    orders = probe.first(100, { message = "ExceptionMessage", thread = "@thread" }, { where = "ends(ExceptionType, 'OrderException')" }),
  },
}

local DEMO <const> = probe.program {
  name = "demo",
  -- without keywords all are enabled: with mask 0 a session does not get what WriteEvent(int, params object[]) writes, which is how Bad's
  -- double goes
  providers = { { name = "Lunette-Demo", level = 5 } },
  events = { ping = "Lunette-Demo/Ping", from = "Lunette-Demo/OrderStart", to = "lunette-demo/OrderStop", bad = "Lunette-Demo/Bad" },
  keep = {
    pings = probe.stats("number", { on = "ping" }),
    texts = probe.distinct("text", { on = "ping", max = 64 }),
    last = probe.last(3, { n = "number", text = "text" }, { on = "ping", where = "number % 10 == 0" }),
    bad = probe.quantiles("value", { 50, 100 }, { on = "bad" }),
    orders = probe.pair { start = "from", stop = "to", by = "id", keep = {
      kinds = probe.group { by = { kind = "start.kind" }, keep = { n = probe.count(), ids = probe.sum("id") } },
    } },
    ping_sites = probe.group { on = "ping", by = { stack = "@stack" }, keep = { n = probe.count() } },
  },
}

local FLOOD <const> = probe.program {
  name = "flood",
  providers = { { name = "Lunette-Flood", level = 5 } },
  events = { start = "Lunette-Flood/WorkStart", stop = "Lunette-Flood/WorkStop" },
  keep = {
    starts = probe.count { on = "start" },
    stops = probe.count { on = "stop" },
    kinds = probe.group { on = "start", by = "kind", keep = { n = probe.count(), weight = probe.sum("weight") } },
    pairs = probe.pair { start = "start", stop = "stop", by = "id", keep = { time = probe.quantiles("@duration", { 50, 99 }) } },
  },
}

local SAMPLES <const> = probe.program {
  name = "samples",
  providers = { { name = "Microsoft-DotNETCore-SampleProfiler", level = 4 } },
  events = { sample = "Microsoft-DotNETCore-SampleProfiler/Thread/Sample" },
  keep = { threads = probe.group { by = { thread = "@thread", stack = "@stack" }, top = 4096, keep = { n = probe.count() } } },
}

local function context()
  local ctx = { transport = "cli", era = "modern", in_task = false, principal = { name = "live test" }, state = {} }
  function ctx.can() return false end
  function ctx.progress() end
  return ctx
end

--- Waits until n sessions are open on the target, and stay: what only asks hangs up.
local function sessions_open(target, n)
  local since
  h.wait_for(n .. " sessions", h.START_MS, function()
    if h.connections(target.pid) < n then since = nil return nil end
    since = since or h.loop.now_ms()
    return h.loop.now_ms() - since >= 300
  end)
end

--- A window over a target, that ends when its work is done. Returns the result and what the target did.
local function window(program, target, options, work)
  local over, did = false, nil
  local given = {
    process = { pid = target.pid }, duration_ms = LONG_MS, interrupted = function() return over end,
  }
  for name, value in pairs(options or {}) do given[name] = value end
  local results = h.together {
    function() return assert(probe.run(context(), program, given)) end,
    function()
      sessions_open(target, 1)
      if work then did = work(target) else
        target:command("go", "^GOING")
        did = known.did(target)
      end
      over = true
      return true
    end,
  }
  h.eq("interrupted", results[1].window.ended, "how the window ended")
  h.eq(true, results[1].window.summary.complete, "complete")
  return results[1], did
end

--- What must be the same live and recorded: all but the window and its price.
local function kept(result)
  local same = {}
  for name, value in pairs(result) do
    if name ~= "window" and name ~= "cost" then same[name] = value end
  end
  same.lost, same.events, same.bytes = result.window.summary.lost, result.window.summary.events, result.window.summary.bytes
  return same
end

--- The window, and then the same program over its recording.
local function live_and_recorded(program, target, options, work)
  local path = h.scratch() .. "/session.nettrace"
  options = options or {}
  options.save_to = path
  local live, did = window(program, target, options, work)
  local recorded = assert(probe.run(context(), program, { path = path }))
  h.eq(h.json.encode(kept(live)), h.json.encode(kept(recorded)), "the recording against the session")
  h.eq("stream-end", recorded.window.ended, "how the recording ended")
  return live, did
end

local function start_target(runtime, mode, n, skip)
  local built, why = h.build_target(runtime)
  if not built then skip(why) end
  return h.target(runtime, mode, n, { go = false })
end

--- Names of a stack's frames, leaf first, without signatures.
local function frames(result, stack)
  local names = {}
  for i, frame in ipairs(h.ok(result.stacks[stack], "stack " .. tostring(stack)).frames) do
    names[i] = frame.name and frame.name:match("^[^(]+") or "?"
  end
  return names
end

local function has_frame(result, stack, name)
  for _, frame in ipairs(frames(result, stack)) do
    if frame == name then return true end
  end
  return false
end

--- No frame of the target's own methods, or of any, is without a name.
local function all_named(result, stack)
  for i, frame in ipairs(result.stacks[stack].frames) do h.ok(frame.name and frame.module, "name and module of frame " .. i) end
end

local function check_fights(result, did)
  local waits = result.waits
  h.eq(did.fights, waits.pairs, "pairs")
  h.eq("0 0 0 0", ("%d %d %d %d"):format(waits.unmatched, waits.replaced, waits.dropped, waits.open), "unmatched, replaced, dropped, open")
  h.eq(did.fights, waits.time.n, "durations")
  -- each lasts 20 ms from when the waiter is blocked; the waiter itself measures from before the runtime's event to after it
  local waited = waits.time.mean * waits.time.n
  h.ok(waited >= 20 * did.fights - 0.5 and waited <= did.wait_total_ms + 0.5, ("%.1f ms waited, measured %.1f ms"):format(waited,
    did.wait_total_ms))
  h.ok(waits.time.p50 >= 19.5, "p50: " .. waits.time.p50)
  h.ok(waits.time.p50 <= waits.time.p95 and waits.time.p95 <= waits.time.p99 and waits.time.p99 <= waits.time.max, "quantiles rise")
  h.eq(1, #waits.sites.rows, "one site: both tiers of a method are one")
  h.eq(did.fights, waits.sites.rows[1].n, "waits of the site")
  h.near(waits.time.mean * waits.time.n, 0.001, waits.sites.rows[1].ms, "ms of the site")
  local site = waits.sites.rows[1].stack
  h.ok(has_frame(result, site, "Lunette.Target.Fights.WaitForGate"), "WaitForGate in " .. table.concat(frames(result, site), " < "))
  h.ok(not has_frame(result, site, "Lunette.Target.Fights.HoldGate"), "the holder is not in the waiter's stack")
  all_named(result, site)
  h.eq(math.min(20, did.fights), #waits.longest.rows, "the longest")
  for i, row in ipairs(waits.longest.rows) do
    h.eq(did.waiter, row.thread, "thread of a wait")
    h.eq(site, row.stack, "stack of a wait")
    h.ok(i == 1 or row.ms <= waits.longest.rows[i - 1].ms, "longest first")
  end
  h.near(waits.time.max, 1e-9, waits.longest.rows[1].ms, "the longest is the greatest")
  h.eq(2, #waits.locks.rows, "two locks")
  h.eq(did.even .. " " .. did.odd, waits.locks.rows[1].n .. " " .. waits.locks.rows[2].n, "waits of each lock")
  h.ok(waits.locks.rows[1].lock ~= waits.locks.rows[2].lock, "the locks differ")
  for _, lock in ipairs(waits.locks.rows) do h.eq(did.holder, lock.owner, "owner of a lock") end
end

local function check_price(cost, summary)
  h.ok(cost, "cost")
  h.ok(cost.target_cpu_ms and cost.target_cpu_ms >= 0 and cost.target_cpu_ms < cost.window_ms, "CPU of the target's streaming thread")
  h.ok(cost.lunette_cpu_ms > 0, "our CPU")
  h.eq(summary.events, cost.events, "events")
  h.eq(summary.bytes, cost.bytes, "bytes")
  h.eq(summary.lost, cost.lost, "lost")
end

local function fights(runtime)
  return function(skip)
    local target <close> = start_target(runtime, "fights", 41, skip)
    local result, did = live_and_recorded(CONTENTION, target)
    check_fights(result, did)
    check_price(result.cost, result.window.summary)
    h.eq("", table.concat(result.notes, "\n"), "notes")
    h.no_session(target)
  end
end

local THROWN <const> = {
  { type = "Lunette.Target.OrderException", name = "order", site = "Lunette.Target.Throwing.ThrowOrder" },
  { type = "System.ArgumentException", name = "argument", site = "Lunette.Target.Throwing.ThrowArgument" },
  { type = "System.InvalidOperationException", name = "invalid", site = "Lunette.Target.Throwing.ThrowInvalid" },
}

local function check_thrown(result, did, named)
  h.eq(#THROWN, #result.by_type.rows, "types")
  for i, thrown in ipairs(THROWN) do
    local row = result.by_type.rows[i]
    h.eq(thrown.type, row.key, "most often first")
    h.eq(did[thrown.name], row.n, "thrown: " .. thrown.type)
    h.eq(did[thrown.name], row.messages.n, "different messages of " .. thrown.type)
    if named then
      h.eq(1, #row.sites.rows, "sites of " .. thrown.type)
      h.eq(thrown.site .. " < Lunette.Target.Throwing.Catch", table.concat(frames(result, row.sites.rows[1].stack), " < "), "site")
      h.eq(did[thrown.name], row.sites.rows[1].n, "thrown at the site")
      all_named(result, row.sites.rows[1].stack)
    end
  end
  h.eq(did.order, result.orders.seen, "orders")
  h.eq(math.min(100, did.order), #result.orders.rows, "orders kept")
  for i, row in ipairs(result.orders.rows) do
    h.eq("order " .. i, row.message, "message")
    h.eq(did.thread, row.thread, "thread")
  end
end

local function throw(runtime)
  return function(skip)
    local target <close> = start_target(runtime, "throw", 40, skip)
    local result, did = live_and_recorded(EXCEPTIONS, target)
    check_thrown(result, did, runtime ~= "aot") -- code compiled ahead of time has no method events: addresses only
    h.no_session(target)
  end
end

local function check_demo(result, did)
  h.eq(did.ping, result.pings.n, "pings")
  h.eq(did.ping * (did.ping + 1) // 2, result.pings.sum, "sum of numbers")
  h.eq("1 " .. did.ping, result.pings.min .. " " .. result.pings.max, "first and last number")
  h.near(did.ping, did.ping * math.max(0.1, 3 * result.texts.error), result.texts.n, "different texts: an estimate")
  h.eq(false, result.texts.exact, "past its limit the number is an estimate")
  h.eq(did.ping // 10, result.last.seen, "every tenth")
  local tail = {}
  for i, row in ipairs(result.last.rows) do tail[i] = row.n .. "=" .. row.text end
  h.eq(("%d=ping %d %d=ping %d %d=ping %d"):format(did.ping - 20, did.ping - 20, did.ping - 10, did.ping - 10, did.ping, did.ping),
    table.concat(tail, " "), "the last three")
  h.eq(did.bad, result.bad.n, "bad ones")
  h.near(did.bad / 2, did.bad * 0.02, result.bad.p50, "median of 1.25, 2.25, …")
  h.eq(did.bad + 0.25, result.bad.max, "largest value")
  h.eq(did.order_start .. " 0 0 0", ("%d %d %d %d"):format(result.orders.pairs, result.orders.unmatched, result.orders.replaced,
    result.orders.open), "orders")
  h.eq(4, #result.orders.kinds.rows, "kinds")
  local ids = 0
  for _, row in ipairs(result.orders.kinds.rows) do
    h.eq(did.order_start // 4, row.n, "orders of kind " .. row.kind)
    ids = ids + row.ids
  end
  h.eq(did.order_start * (did.order_start + 1) // 2, ids, "ids of all kinds")
  local pinged = 0
  for _, row in ipairs(result.ping_sites.rows) do
    h.ok(has_frame(result, row.stack, "Lunette.Target.Demo.WritePing"), "WritePing in " .. table.concat(frames(result, row.stack), " < "))
    pinged = pinged + row.n
  end
  h.eq(did.ping, pinged, "pings of all sites")
end

local function source(runtime)
  return function(skip)
    local target <close> = start_target(runtime, "source", 400, skip)
    check_demo(live_and_recorded(DEMO, target))
  end
end

local function samples_name_both_sides(skip)
  local target <close> = start_target("net10.0", "fights", 40, skip)
  local result, did = window(SAMPLES, target)
  local seen = { [did.holder] = 0, [did.waiter] = 0 }
  for _, row in ipairs(result.threads.rows) do
    if row.stack and has_frame(result, row.stack, "Lunette.Target.Fights.HoldGate") then
      h.eq(did.holder, row.thread, "who holds")
      seen[row.thread] = seen[row.thread] + row.n
    elseif row.stack and has_frame(result, row.stack, "Lunette.Target.Fights.WaitForGate") then
      h.eq(did.waiter, row.thread, "who waits")
      seen[row.thread] = seen[row.thread] + row.n
    end
  end
  -- a sample a millisecond would be 800 in 40 fights of 20 ms; a busy machine takes fewer
  h.ok(seen[did.holder] > 100, "samples of the holder: " .. seen[did.holder])
  h.ok(seen[did.waiter] > 100, "samples of the waiter: " .. seen[did.waiter])
end

local function target_killed(skip)
  local target <close> = start_target("net10.0", "fights", 100000, skip)
  local given = { process = { pid = target.pid }, duration_ms = LONG_MS }
  local results = h.together {
    function() return assert(probe.run(context(), CONTENTION, given)) end,
    function()
      sessions_open(target, 1)
      target:command("go", "^GOING")
      h.loop.sleep_ms(3000) -- some fights
      target:signal("KILL")
      return true
    end,
  }
  local result = results[1]
  h.eq("stream-end", result.window.ended, "how the window ended")
  h.eq(false, result.window.summary.complete, "complete")
  h.ok(result.window.elapsed_ms < LONG_MS / 2, "at once")
  h.ok(result.waits.pairs >= 3, "what came before is kept: " .. result.waits.pairs)
  h.ok(table.concat(result.notes, "\n"):find("ProcessEnded", 1, true), "a note that the process ended")
  local top = result.stacks[result.waits.sites.rows[1].stack].frames[1]
  h.eq(nil, top.name, "no rundown, no name")
  h.ok(top.address:find("^0x%x+$"), "but an address")
end

local function two_sessions(skip)
  local target <close> = start_target("net10.0", "fights", 40, skip)
  local over, did = false, nil
  local function collect(program)
    return function()
      return assert(probe.run(context(), program, {
        process = { pid = target.pid }, duration_ms = LONG_MS, interrupted = function() return over end,
      }))
    end
  end
  local results = h.together {
    collect(CONTENTION), collect(CONTENTION), collect(SAMPLES),
    function()
      sessions_open(target, 3)
      target:command("go", "^GOING")
      did = known.did(target)
      over = true
      return true
    end,
  }
  check_fights(results[1], did)
  check_fights(results[2], did)
  h.near(results[1].waits.time.max, 20, results[2].waits.time.max, "the longest wait: each session has its own time stamps")
  check_price(results[1].cost, results[1].window.summary)
  check_price(results[3].cost, results[3].window.summary)
  h.ok(results[3].cost.target_cpu_ms > results[1].cost.target_cpu_ms, "the sampling session costs its own thread more")
  h.no_session(target)
end

local function cancelled(skip)
  local target <close> = start_target("net10.0", "fights", 100000, skip)
  local before = #h.fs.list("/proc/self/fd")
  local task = h.loop.spawn(function()
    return probe.run(context(), CONTENTION, { process = { pid = target.pid }, duration_ms = LONG_MS })
  end)
  sessions_open(target, 1)
  target:command("go", "^GOING")
  h.loop.sleep_ms(700)
  local since = h.loop.now_ms()
  task:cancel("no longer wanted")
  local result, err = task:await(h.START_MS)
  h.eq(nil, result, "no result")
  h.eq("Cancelled", err.kind, "kind of error")
  h.ok(h.loop.now_ms() - since < 5000, "at once")
  h.no_session(target)
  h.wait_for("the descriptors of the session", h.START_MS, function() return #h.fs.list("/proc/self/fd") <= before end)
  -- and the target can be asked again
  local again = assert(probe.run(context(), CONTENTION, { process = { pid = target.pid }, duration_ms = 2000 }))
  h.eq("deadline", again.window.ended, "how the next window ended")
  h.ok(again.waits.pairs >= 3, "pairs of the next window: " .. again.waits.pairs)
  h.no_session(target)
end

local function overflow(runtime)
  return function(skip)
    local target <close> = start_target(runtime, "flood", 0, skip)
    local result, did = live_and_recorded(FLOOD, target, { buffer_mb = 1 }, function(t)
      t:command("go", "^GOING")
      h.loop.sleep_ms(2500 * h.slowness())
      t:command("stop", "^STOPPED")
      return known.did(t)
    end)
    local s = result.window.summary
    h.ok(s.lost > 0, "the runtime's buffer overflows: lost " .. s.lost)
    h.eq(s.lost, result.cost.lost, "loss in the price")
    local by_thread = 0
    for _, thread in ipairs(result.cost.lost_by_thread) do by_thread = by_thread + thread.events end
    h.eq({ s.lost, 2 }, { by_thread, #result.cost.lost_by_thread }, "loss of each of the two threads that write")
    h.ok(table.concat(result.notes, "\n"):find(("EventsLost: the target dropped %d events"):format(s.lost), 1, true), "a note of the loss")
    h.eq(0, s.dropped, "nothing dropped by us")
    -- to the event, as a rule; what a thread lost last of all, before it ended, the stream does not tell
    local told = result.starts + result.stops + s.lost
    if told <= did.events * 0.95 then h.too_slow() end -- in more time that is a smaller part
    h.ok(told <= did.events and told > did.events * 0.95, ("counted and lost are what was written: %d of %d"):format(told, did.events))
    h.eq(result.starts, result.pairs.pairs + result.pairs.open + result.pairs.dropped + result.pairs.replaced, "each start is in one place")
    h.eq(result.stops, result.pairs.pairs + result.pairs.unmatched, "each stop too")
    check_price(result.cost, s)
  end
end

local function flood_without_loss(skip)
  local target <close> = start_target("net10.0", "flood", 40, skip)
  local result, did = live_and_recorded(FLOOD, target, nil, function(t)
    t:command("go", "^GOING")
    h.loop.sleep_ms(2000 * h.slowness())
    t:command("stop", "^STOPPED")
    return known.did(t)
  end)
  if did.starts < 1000 then h.too_slow() end -- it hardly flowed
  h.eq(0, result.window.summary.lost, "nothing lost")
  h.eq(did.starts .. " " .. did.stops, result.starts .. " " .. result.stops, "starts and stops")
  h.eq(did.starts, result.pairs.pairs, "pairs")
  h.eq(16, #result.kinds.rows, "kinds")
  for _, row in ipairs(result.kinds.rows) do
    h.eq(did[row.key] .. " " .. did[row.key .. "_weight"], row.n .. " " .. row.weight, row.key)
  end
  local cost = result.cost
  check_price(cost, result.window.summary)
  h.near(cost.events / cost.window_ms * 1000, 1, cost.events_per_s, "events a second")
end

-- The window is cut out of a flood: what began before it and what it cuts off are told, not guessed.
local function middle_of_a_flood(skip)
  local target <close> = start_target("net10.0", "flood", 20, skip)
  target:command("go", "^GOING")
  local function run(which, ms, path)
    return assert(probe.run(context(), which, { process = { pid = target.pid }, duration_ms = ms * h.slowness(), save_to = path }))
  end
  h.wait_for("the flood", h.START_MS, function() return run(FLOOD, 500).starts > 100 end)
  local program = probe.program {
    name = "middle", providers = { { name = "Lunette-Flood", level = 5 } },
    events = { start = "Lunette-Flood/WorkStart", stop = "Lunette-Flood/WorkStop" },
    keep = {
      starts = probe.count { on = "start" },
      stops = probe.count { on = "stop" },
      pairs = probe.pair { start = "start", stop = "stop", by = "id", open = { id = "id", kind = "kind", at = "@time" } },
      slices = probe.timeline { every = "100ms", keep = { n = probe.count { on = "start" }, last_ns = probe.max("@time") } },
    },
  }
  local path = h.scratch() .. "/session.nettrace"
  local live = run(program, 1500, path)
  local recorded = assert(probe.run(context(), program, { path = path }))
  h.eq("deadline", live.window.ended, "how the window ended")
  h.eq(h.json.encode(kept(live)), h.json.encode(kept(recorded)), "the recording against the session")
  h.eq(0, live.window.summary.lost, "nothing lost")
  local pairs_ = live.pairs
  if live.starts <= 5000 then h.too_slow() end -- of some 15000
  h.eq(live.starts, pairs_.pairs + pairs_.open, "each start has its stop or is open")
  h.eq(live.stops, pairs_.pairs + pairs_.unmatched, "each stop has its start or none")
  h.ok(pairs_.open > 0 and pairs_.open <= 40, "open at the end: 16 a thread, " .. pairs_.open)
  h.ok(pairs_.unmatched > 0 and pairs_.unmatched <= 40, "begun before: 16 a thread, " .. pairs_.unmatched)
  h.eq(pairs_.open, #pairs_.open_rows, "open rows")
  for i, row in ipairs(pairs_.open_rows) do
    h.ok(row.kind:find("^kind%d%d$"), "kind of an open one")
    h.ok(i == 1 or row.at >= pairs_.open_rows[i - 1].at, "oldest first")
  end
  local sum = 0
  for i, slice in ipairs(live.slices.buckets) do
    sum = sum + slice.n
    h.eq(0, slice.at_ns % 100000000, "where a slice begins")
    h.ok(slice.last_ns >= slice.at_ns and slice.last_ns < slice.at_ns + 100000000, "its events lie within")
    h.ok(i == 1 or slice.at_ns > live.slices.buckets[i - 1].at_ns, "in order of time")
  end
  h.eq(live.starts, sum, "starts of all slices")
  local slices = live.window.elapsed_ms / 100
  if #live.slices.buckets < slices - 3 then h.too_slow() end -- the target stood for a while
  slices = slices + live.window.drain_ms / 100 -- what was written until the runtime had ended the session belongs to it
  h.ok(#live.slices.buckets <= slices + 3, ("%d slices of a window of %.1f"):format(#live.slices.buckets, slices))
end

local function each_in_lua(skip)
  local target <close> = start_target("net10.0", "source", 400, skip)
  local seen = {}
  local program = probe.program {
    name = "each", providers = { { name = "Lunette-Demo", level = 5 } },
    events = { ping = "Lunette-Demo/Ping", bad = "Lunette-Demo/Bad" },
    keep = {
      pings = probe.each(function(row) seen[#seen + 1] = row end, { n = "number", text = "text", thread = "@thread" }, { on = "ping" }),
      worst = probe.max("value", { on = "bad" }),
    },
  }
  local result, did = window(program, target)
  h.eq(did.ping .. " 0", result.pings.seen .. " " .. result.pings.dropped, "seen and dropped")
  h.eq(did.ping, #seen, "rows in Lua")
  for i, row in ipairs(seen) do
    h.eq(("%d=ping %d of %d"):format(i, i, did.thread), ("%d=%s of %d"):format(row.n, row.text, row.thread), "row")
  end
  h.eq(did.bad + 0.25, result.worst, "a reducer beside it")
end

local FIVE <const> = probe.program {
  name = "five",
  providers = { { name = RUNTIME, keywords = "Exception", level = 2 } },
  events = { thrown = RUNTIME .. "/Exception/Start" },
  finish = { on = "thrown", where = "ends(ExceptionType, 'OrderException')", count = 5 },
  stacks = "addresses",
  keep = {
    orders = probe.count { where = "ends(ExceptionType, 'OrderException')" },
    sites = probe.group { by = { stack = "@stack" }, keep = { n = probe.count() } },
  },
}

local function finished_early(skip)
  local target <close> = start_target("net10.0", "throw", 10, skip)
  local results = h.together {
    function() return assert(probe.run(context(), FIVE, { process = { pid = target.pid }, duration_ms = LONG_MS })) end,
    function()
      sessions_open(target, 1)
      return target:command("go", "^GOING") -- one burst, then silence
    end,
  }
  local result = results[1]
  h.eq("finished", result.window.ended, "how the window ended")
  h.ok(result.window.elapsed_ms < LONG_MS / 2, "early: " .. result.window.elapsed_ms)
  h.ok(result.orders >= 5, "orders: " .. result.orders)
  for _, row in ipairs(result.sites.rows) do
    h.eq(nil, result.stacks[row.stack].frames[1].name, "addresses only")
  end
  h.eq(nil, h.find(result.window.summary.counts, { event = "Method/DCStopVerbose" }), "no rundown for addresses")
end

local function peeked(skip)
  local target <close> = start_target("net10.0", "throw", 10, skip)
  local session <close> = assert(probe.open(EXCEPTIONS, { process = { pid = target.pid } }))
  h.eq(0, #session:peek().by_type.rows, "nothing yet")
  target:command("go", "^GOING")
  local did = known.did(target)
  h.wait_for("all that was thrown, while the session goes on", h.START_MS, function()
    session:next(50)
    return session:peek().orders.seen == did.order
  end)
  check_thrown(session:peek(), did, false) -- no names before the end
  assert(session:stop(10000))
  check_thrown(session:peek(), did, true)
  h.no_session(target)
end

local tests = {}
for _, runtime in ipairs(RUNTIMES) do
  tests[#tests + 1] = { "lock fights, live and recorded, " .. runtime, fights(runtime) }
  tests[#tests + 1] = { "exceptions, live and recorded, " .. runtime, throw(runtime) }
  tests[#tests + 1] = { "an EventSource, live and recorded, " .. runtime, source(runtime) }
end
tests[#tests + 1] = { "exceptions of a program compiled ahead of time", throw("aot") }
for _, runtime in ipairs { "net10.0", "net8.0", "aot" } do
  tests[#tests + 1] = { "the runtime's buffer overflows, " .. runtime, overflow(runtime), alone = true }
end
for _, case in ipairs {
  { "samples name who holds and who waits", samples_name_both_sides },
  { "the target is killed in the window", target_killed },
  { "three sessions on one target, two of one program", two_sessions },
  { "cancellation half-way", cancelled, alone = true }, -- it counts the descriptors of this process
  { "a flood without loss", flood_without_loss, alone = true },
  { "the middle of a flood", middle_of_a_flood, alone = true },
  { "a Lua function for each event", each_in_lua },
  { "an early end that the program asks for", finished_early },
  { "a look at a session that runs", peeked },
} do tests[#tests + 1] = case end
return tests
