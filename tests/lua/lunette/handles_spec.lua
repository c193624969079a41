-- SPDX-License-Identifier: MIT
local atomic = require("lunette.atomic")
local handles = require("lunette.handles")
local kit = require("support.framework_kit")
local loop = require("lunette.loop")
local metrics = require("lunette.metrics")

local function counter(name) return metrics.counter("dotnet_diagnostics_handle_" .. name, "") end

-- A store with its own clock and its own idea of which processes live.
local function new(max)
  local clock, dead = kit.clock(), {}
  local store = handles.new_store({
    max_entries = max, clock = clock.now, unix = clock.unix,
    lives = function(pid, start) return not dead[pid] and (start == nil or start == 5) end,
  })
  return store, clock, dead
end

local function put(store, more)
  local given = { kind = "counters", artifact = {}, process_id = 42, process_start = 5, origin = "live" }
  for k, v in pairs(more or {}) do given[k] = v end
  return store:put(given)
end

describe("handles #unit", function()
  it("handle ids are opaque Crockford base32", function()
    local store = new(1024)
    local seen = {}
    for _ = 1, 200 do
      local id = put(store).id
      assert.matches("^[0-9A-HJKMNP-TV-Z]+$", id)
      assert.equal(20, #id)
      assert.is_nil(seen[id])
      seen[id] = true
    end
  end)

  it("handleExpiresAt is about 10 minutes ahead, handleExpiresInSeconds agrees and never is negative", function()
    local store, clock = new(4)
    local h = put(store)
    assert.equal(600000, h.expires_unix_ms - clock.unix())
    assert.equal(600, handles.seconds_left(h, clock.unix()))
    clock.ms = clock.ms + 599500
    assert.equal(0, handles.seconds_left(h, clock.unix()))
    clock.ms = clock.ms + 5000
    assert.equal(0, handles.seconds_left(h, clock.unix()))
  end)

  it("what a call has made or looked up is open until the call is over, though its process ends meanwhile", function()
    local store, _, dead = new(4)
    local closed = {}
    local function artifact(name) return { close = function() closed[#closed + 1] = name end } end
    local earlier = put(store, { artifact = artifact("looked up"), process_id = 7 })
    loop.spawn(function()
      local _ <close> = handles.hold()
      local mine = put(store, { artifact = artifact("made") })
      assert.equal(earlier, store:get(earlier.id))
      do
        local _ <close> = handles.hold() -- a call within the call
      end
      dead[42], dead[7] = true, true
      loop.spawn(function() store:sweep() end):await()
      assert.is_nil(store:peek(mine.id))
      assert.same({}, closed)
    end):await()
    table.sort(closed)
    assert.same({ "looked up", "made" }, closed)
    put(store, { artifact = artifact("by nobody"), process_id = 8 })
    dead[8] = true
    store:sweep()
    assert.equal("by nobody", closed[3])
  end)

  it("the 33rd handle evicts the one that expires first; ties go to the oldest", function()
    local store, clock = new(handles.DEFAULT_ENTRIES)
    local first, second = put(store), put(store) -- the same instant: a tie
    clock.ms = clock.ms + 10
    for _ = 3, 32 do put(store) end
    assert.equal(32, store.n)
    put(store)
    assert.equal(32, store.n)
    local _, err = store:get(first.id)
    assert.equal("HandleCapacityEvicted", err.kind)
    assert.equal(second, store:get(second.id))
    put(store)
    _, err = store:get(second.id)
    assert.equal("HandleCapacityEvicted", err.kind)
  end)

  it("expired handles make room before living ones", function()
    local store, clock = new(2)
    local old = put(store)
    clock.ms = clock.ms + 300000
    local living = put(store)
    clock.ms = clock.ms + 300000
    put(store)
    local _, err = store:get(old.id)
    assert.equal("HandleExpired", err.kind)
    assert.equal(living, store:get(living.id))
  end)

  it("an evicted handle: HandleCapacityEvicted with a hint to its collector and the operator setting", function()
    local store = new(1)
    local h = put(store, { collector = { tool = "collect_events", arguments = { kind = "counters", processId = 42 } } })
    put(store)
    local entry, err = store:get(h.id)
    assert.is_nil(entry)
    assert.equal("HandleCapacityEvicted", err.kind)
    assert.equal(h.id, err.detail)
    assert.equal("collect_events", err.hints[1].nextTool)
    assert.same({ kind = "counters", processId = 42 }, err.hints[1].suggestedArguments)
    assert.matches("Diagnostics:HandleStore:MaxEntries", err.hints[2].reason, 1, true)
  end)

  it("a handle past its time: HandleExpired, with a hint to its collector", function()
    local store, clock = new(4)
    local h = put(store, { kind = "thread-snapshot" })
    clock.ms = clock.ms + handles.TTL_MS
    local _, err = store:get(h.id)
    assert.equal("HandleExpired", err.kind)
    assert.equal("collect_thread_snapshot", err.hints[1].nextTool)
    assert.same({ processId = 42 }, err.hints[1].suggestedArguments)
  end)

  it("a made-up handle, or one after a restart: HandleNotFound", function()
    local store, h = new(4), put((new(4)))
    for _, id in ipairs({ "XXXXXXXXXXXXXXXXXXXX", h.id, "" }) do
      local _, err = store:get(id)
      assert.equal("HandleNotFound", err.kind)
      assert.equal(id, err.detail)
    end
  end)

  it("after process exit a live collection handle is HandleNotFound, a thread snapshot still answers", function()
    local store, _, dead = new(8)
    local live, threads = put(store), put(store, { kind = "thread-snapshot" })
    local trace, params = put(store, { origin = "trace" }), put(store, { kind = "method-params-capture", origin = "live" })
    dead[42] = true
    local _, err = store:get(live.id)
    assert.equal("HandleNotFound", err.kind)
    assert.matches("ended with its process 42", err.message, 1, true)
    assert.same({ kind = "counters" }, err.hints[2].suggestedArguments)
    assert.equal(threads, store:get(threads.id))
    assert.equal(trace, store:get(trace.id))
    _, err = store:get(params.id)
    assert.equal("HandleNotFound", err.kind)
  end)

  it("in a command that ends by itself a process takes nothing with it", function()
    local lives = handles.store.lives
    finally(function() handles.store.lives = lives end)
    local function kept() return handles.put({ kind = "counters", artifact = {}, process_id = 1 << 30 }) end
    local gone = kept()
    assert.is_true(handles.ended_with_process(gone))
    assert.is_nil((handles.get(gone.id)))
    handles.outlive_processes()
    local stays = kept()
    finally(function() handles.invalidate(stays.id) end)
    assert.is_false(handles.ended_with_process(stays))
    assert.equal(stays, handles.get(stays.id))
  end)

  it("a reused process id is not the same process", function()
    local store = new(4)
    local h = put(store, { process_start = 6 })
    local _, err = store:get(h.id)
    assert.equal("HandleNotFound", err.kind)
  end)

  it("a process that has ended has ended, also while its parent has not asked for it", function()
    local store = handles.new_store({ max_entries = 4 })
    local parent <close> = io.popen("(exit 0) & echo $!; exec sleep 1")
    local pid = math.tointeger(tonumber(parent:read("l")))
    repeat
      local stat = require("lunette.proc").stat(pid)
    until not stat or stat.state == "Z"
    local _, err = store:get(put(store, { process_id = pid, process_start = false }).id)
    assert.equal("HandleNotFound", err.kind)
  end)

  it("tells this very process from one that is gone, by /proc", function()
    local store = handles.new_store({ max_entries = 4 })
    local here = put(store, { process_id = require("lunette.sys").pid, process_start = false })
    assert.equal(here, store:get(here.id))
    local gone = put(store, { process_id = 4194304, process_start = false }) -- above pid_max
    local _, err = store:get(gone.id)
    assert.equal("HandleNotFound", err.kind)
  end)

  it("concurrent collectors never exceed MaxEntries, also when the host suspends them anywhere", function()
    local store, tasks, worst = new(8), {}, 0
    -- One step: a table that others change cannot be walked when the walk may be suspended half-way.
    local look = atomic(function()
      local n = 0
      for _ in pairs(store.by_id) do n = n + 1 end
      worst = math.max(worst, n, store.n)
    end)
    for i = 1, 20 do
      tasks[i] = loop.spawn(function()
        local x = 0
        for k = 1, 40 do
          for n = 1, 20000 do x = x + n % k end -- long enough to be suspended now and then
          put(store)
          look()
        end
        return x
      end)
    end
    local suspended = 0
    for _, task in ipairs(tasks) do
      assert(task:await())
      suspended = suspended + task:usage().preempted
    end
    assert.is_true(suspended > 20, "the tasks were never suspended")
    assert.equal(8, worst)
    assert.equal(8, store.n)
  end)

  it("Diagnostics:HandleStore:MaxEntries outside 1..1024 is never used as given", function()
    assert.same({ 32 }, { handles.entries_from(nil) })
    assert.same({ 1 }, { handles.entries_from(1) })
    assert.same({ 1024 }, { handles.entries_from("1024") })
    for _, value in ipairs({ 0, -1, 1025, "many", 1.5 }) do
      local n, why = handles.entries_from(value)
      assert.equal(32, n)
      assert.matches("from 1 to 1024", why, 1, true)
    end
  end)

  it("tombstones are bounded (four an entry)", function()
    local store = new(2)
    local ids = {}
    for i = 1, 30 do ids[i] = put(store).id end
    local kinds_of = {}
    for i, id in ipairs(ids) do
      local _, err = store:get(id)
      kinds_of[i] = err and err.kind or "alive"
    end
    local counted = {}
    for _, kind in ipairs(kinds_of) do counted[kind] = (counted[kind] or 0) + 1 end
    assert.same({ alive = 2, HandleCapacityEvicted = 8, HandleNotFound = 20 }, counted)
    local n = 0
    for _ in pairs(store.tombstones) do n = n + 1 end
    assert.equal(8, n)
    for _, grave in pairs(store.tombstones) do assert.is_nil(grave.artifact) end
  end)

  it("metrics count registrations, evictions by reason, look-ups and failed disposals, and carry no handle id", function()
    local before = {}
    for _, reason in ipairs({ "ttl", "capacity", "process_exit", "invalidate" }) do
      before[reason] = counter("evictions_total"):value({ reason = reason })
    end
    local made, failed = counter("registrations_total"):value({ kind = "counters" }),
      counter("disposal_failures_total"):value({ kind = "counters" })
    local store, clock, dead = new(2)
    local a, b = put(store), put(store)
    local c = put(store, { artifact = { close = function() error("stuck") end } })
    store:invalidate(c.id)
    dead[42] = true
    store:get(b.id)
    dead[42] = nil
    local d = put(store)
    clock.ms = clock.ms + handles.TTL_MS
    store:get(d.id)
    for _, reason in ipairs({ "ttl", "capacity", "process_exit", "invalidate" }) do
      assert.equal(before[reason] + 1, counter("evictions_total"):value({ reason = reason }), reason)
    end
    assert.equal(made + 4, counter("registrations_total"):value({ kind = "counters" }))
    assert.equal(failed + 1, counter("disposal_failures_total"):value({ kind = "counters" }))
    local page = metrics.render()
    assert.matches('dotnet_diagnostics_handle_evictions_total{reason="capacity"} %d+', page)
    for _, h in ipairs({ a, b, c, d }) do assert.is_nil(page:find(h.id, 1, true)) end
  end)

  it("closes an artifact when it is dropped, once", function()
    local store, closed = new(1), 0
    put(store, { artifact = { close = function() closed = closed + 1 end } })
    put(store)
    assert.equal(1, closed)
    store:clear()
    assert.equal(1, closed)
  end)

  it("latest is the newest of its kind, of one process or of any", function()
    local store = new(8)
    local first, other = put(store), put(store, { process_id = 7 })
    put(store, { kind = "gc-events" })
    assert.equal(other, store:latest("counters"))
    assert.equal(first, store:latest("counters", 42))
    assert.is_nil(store:latest("counters", 99))
    assert.is_nil(store:latest("heap-snapshot"))
  end)

  it("latest takes no handle whose time, place or process is over", function()
    local store, clock, dead = new(2)
    local first = put(store, { process_id = 7 })
    clock.ms = clock.ms + 300000
    local second = put(store)
    dead[42] = true
    assert.equal(first, store:latest("counters"))
    assert.is_nil(store:latest("counters", 42))
    dead[42] = nil
    assert.equal("HandleNotFound", select(2, store:get(second.id)).kind)
    clock.ms = clock.ms + 300000
    assert.is_nil(store:latest("counters"))
    local third = put(store)
    store:invalidate(third.id)
    assert.is_nil(store:latest("counters"))
  end)

  it("knows only the decided origins", function()
    assert.has_error(function() put((new(1)), { origin = "Live" }) end)
  end)
end)
