-- SPDX-License-Identifier: MIT
-- collect_events(kind="contention") over recordings of known lock fights, and its views, notes, hints and signal.
local json = require("lunette.json")
local waits = require("support.waits_kit")

local between, ms = waits.between, waits.ms

local function collect(name, more) return waits.collect("contention", name, more) end
local function view(envelope, name, more) return waits.view("contention", envelope, name, more) end
local function has_note(notes, text) return table.concat(notes, "\n"):find(text, 1, true) ~= nil end

-- name, fights, their time as the waiter measured it, holder, waiter; as the recordings' README says
local FIGHTS <const> = {
  { "fights", 40, 851.7, 30551, 30552 }, { "net8-fights", 10, 212.0, 28456, 28457 }, { "holds", 10, 267.8, 14295, 14297 },
  { "net8-holds", 10, 217.7, 14362, 14364 }, { "net9-holds", 10, 214.2, 14389, 14391 },
}

describe("collect_events contention, recorded", function()
  it("counts the fights, their locks and their time, on .NET 8, 9 and 10", function()
    for _, known in ipairs(FIGHTS) do
      local name, n, measured_ms = table.unpack(known)
      local _, data = collect(name)
      assert.same({ n, 2 }, { data.totalEvents, data.distinctMonitors }, name)
      between(0.98 * measured_ms, measured_ms, ms(data.totalContentionDuration))
      between(20, 25, ms(data.p50ContentionDuration))
      between(ms(data.p50ContentionDuration), ms(data.maxContentionDuration), ms(data.p95ContentionDuration))
      assert.equal(0, #data.notes, name .. ": " .. table.concat(data.notes, " "))
    end
  end)

  it("has no single contentions at Summary, and all of them, longest first, at Detail", function()
    local envelope, summary = collect("fights")
    assert.equal(0, #summary.events)
    assert.matches("; 100 %% of it at Lunette%.Target%.Fights%.WaitForGate%(int32%)%.$", envelope.summary)
    local _, data = collect("fights", { depth = "Detail" })
    assert.equal(40, #data.events)
    local per_lock = {}
    for i, e in ipairs(data.events) do
      assert.is_true(i == 1 or ms(data.events[i - 1].duration) >= ms(e.duration))
      assert.same({ 30552, 30551 }, { e.contendingThreadId, e.ownerManagedThreadId })
      assert.equal("Lunette.Target.Fights.WaitForGate(int32)", e.callSiteMethod)
      assert.equal("lunette-target", e.callSiteModule)
      assert.matches("^0x%x+$", e.lockId)
      assert.matches("^0x%x+$", e.associatedObjectId)
      assert.is_true(e.startedAt < e.stoppedAt)
      between(20.2, 22.4, ms(e.duration))
      per_lock[e.lockId] = (per_lock[e.lockId] or 0) + 1
    end
    local counts = {}
    for _, n in pairs(per_lock) do counts[#counts + 1] = n end
    assert.same({ 20, 20 }, counts)
  end)

  it("byCallSite has the method that waits, whatever frames of Monitor the runtime shows above it", function()
    for _, known in ipairs(FIGHTS) do
      local payload = view(collect(known[1]), "byCallSite")
      assert.same({ known[2], 1, 1 }, { payload.totalEvents, payload.returned, #payload.callSites })
      local site = payload.callSites[1]
      assert.same({ "Lunette.Target.Fights.WaitForGate(int32)", "lunette-target", known[2], 2, 1 },
        { site.callSiteMethod, site.callSiteModule, site.eventCount, site.distinctMonitors, site.distinctOwnerThreads })
    end
  end)

  it("byOwner has the thread that held the locks", function()
    for _, known in ipairs(FIGHTS) do
      local payload = view(collect(known[1]), "byOwner")
      assert.equal(1, #payload.owners)
      assert.same({ known[4], known[2], 2 },
        { payload.owners[1].ownerManagedThreadId, payload.owners[1].eventCount, payload.owners[1].distinctMonitors })
    end
  end)

  it("summary has what the answer has", function()
    local envelope, data = collect("fights")
    local payload = view(envelope, "summary")
    assert.same({ 40, 2 }, { payload.totalEvents, payload.contendedMonitorCount })
    for _, name in ipairs { "totalContentionDuration", "p50ContentionDuration", "p95ContentionDuration", "maxContentionDuration" } do
      assert.equal(data[name], payload[name])
    end
  end)

  it("byBlame says that nothing tells where an owner was that made no event", function()
    local payload, answer = view(collect("fights"), "byBlame")
    assert.same({ 40, 40, 2 }, { payload.totalEvents, payload.followedEvents, payload.returned })
    for _, lock in ipairs(payload.locks) do
      assert.same({ 20, 1, 0 }, { lock.eventCount, lock.waitingThreads, lock.stillWaiting })
      assert.equal("Lunette.Target.Fights.WaitForGate(int32)", lock.waitingAt[1].callSiteMethod)
      assert.equal(1, #lock.owners)
      local owner = lock.owners[1]
      assert.same({ "none", "(unknown)", 20, { 30551 }, 1 },
        { owner.evidence, owner.callSiteMethod, owner.tenures, owner.ownerThreadIds, owner.share })
      assert.is_nil(owner.stack)
      assert.is_nil(owner.lateBy)
      between(0.99 * ms(lock.totalContentionDuration), ms(lock.totalContentionDuration), ms(owner.blockedDuration))
    end
    assert.matches("where the owners were is not known", answer.summary, 1, true)
  end)

  it("byBlame has the owner's stack where it waited or threw while it held the lock, and by how much that is late", function()
    for _, name in ipairs { "holds", "net9-holds" } do
      local payload = view(collect(name), "byBlame")
      local at = {}
      for _, lock in ipairs(payload.locks) do
        assert.equal(1, #lock.owners, name)
        local owner = lock.owners[1]
        assert.same({ "holding", 5 }, { owner.evidence, owner.tenures }, name)
        assert.equal("Lunette.Target.Fights.HoldGate(int32)", owner.stack[#owner.stack - (name == "holds" and 3 or 2)])
        at[owner.callSiteMethod] = ms(owner.lateBy)
      end
      between(0, 5, at["Lunette.Target.Fights.HoldAndWait()"])   -- at once
      between(20, 25, at["Lunette.Target.Fights.HoldAndThrow()"]) -- just before it lets go
    end
  end)

  it("byBlame takes the owner's next event where there is none before, and says so", function()
    local payload = view(collect("net8-holds"), "byBlame") -- .NET 8 tells of no waits: odd fights leave nothing until the next throw
    local by_evidence = {}
    for _, lock in ipairs(payload.locks) do
      for _, owner in ipairs(lock.owners) do by_evidence[owner.evidence] = owner end
    end
    assert.same({ 5, "Lunette.Target.Fights.HoldAndThrow()" }, { by_evidence.holding.tenures, by_evidence.holding.callSiteMethod })
    assert.same({ 4, "Lunette.Target.Fights.HoldAndThrow()" }, { by_evidence.later.tenures, by_evidence.later.callSiteMethod })
    between(40, 50, ms(by_evidence.later.lateBy))
    assert.same({ 1, "(unknown)" }, { by_evidence.none.tenures, by_evidence.none.callSiteMethod })
  end)

  it("keeps topN", function()
    local payload = view(collect("fights"), "byBlame", { topN = 1 })
    assert.same({ 1, 1 }, { payload.returned, #payload.locks })
  end)

  it("has the caveat in an empty window, and hints at the counter and at the threads", function()
    for _, name in ipairs { "quiet", "waits" } do
      local envelope, data = collect(name)
      assert.same({ 0, 0, "00:00:00", "00:00:00" },
        { data.totalEvents, data.distinctMonitors, data.totalContentionDuration, data.maxContentionDuration })
      assert.is_true(has_note(data.notes, "although monitor-lock-contention-count rises"))
      assert.same({ "collect_events", "counters", { "System.Runtime" } },
        { envelope.hints[1].nextTool, envelope.hints[1].suggestedArguments.kind, envelope.hints[1].suggestedArguments.providers })
      assert.equal("collect_thread_snapshot", envelope.hints[2].nextTool)
      assert.is_nil(envelope.signals)
      for _, name_of_view in ipairs { "byCallSite", "byOwner", "byBlame" } do assert.equal(0, view(envelope, name_of_view).returned) end
    end
  end)

  it("says what its limits left out", function()
    local program = require("collectors.contention.program")
    local kept = { program.MAX_EVENTS, program.MAX_FOLLOWED, program.MAX_LOCKS }
    program.MAX_EVENTS, program.MAX_FOLLOWED, program.MAX_LOCKS = 5, 10, 1
    local envelope, data = collect("fights", { depth = "Detail" })
    local payload = view(envelope, "byBlame")
    program.MAX_EVENTS, program.MAX_FOLLOWED, program.MAX_LOCKS = table.unpack(kept)
    assert.same({ 40, 2, 5 }, { data.totalEvents, data.distinctMonitors, #data.events })
    assert.is_true(ms(data.events[1].duration) == ms(data.maxContentionDuration))
    assert.is_true(has_note(data.notes, "EventLimit: the 5 longest of 40 contentions"))
    assert.is_true(has_note(data.notes, "GroupLimit: 1 more locks"))
    assert.same({ 10, 1 }, { payload.followedEvents, payload.returned })
    assert.is_true(has_note(payload.notes, "Followed: owners are those of the last 10 of 40 contentions."))
    assert.equal(1, payload.locks[1].owners[1].share) -- of what was followed
  end)

  it("tells of those who still waited, and has no names, when a recording stops half-way", function()
    waits.cut("fights", 2800, function(path) -- the 31st fight has begun
      local envelope, data = collect(nil, { traceFilePath = path, depth = "Detail" })
      assert.same({ 30, 2, 30 }, { data.totalEvents, data.distinctMonitors, #data.events })
      for _, word in ipairs { "Incomplete", "NoNames", "StillWaiting: 1 of the contentions" } do
        assert.is_true(has_note(data.notes, word), word)
      end
      for _, e in ipairs(data.events) do assert.same({ "(unknown)", "(unknown)" }, { e.callSiteMethod, e.callSiteModule }) end
      local sites = view(envelope, "byCallSite").callSites
      assert.same({ 1, "(unknown)", 30, 2 }, { #sites, sites[1].callSiteMethod, sites[1].eventCount, sites[1].distinctMonitors })
      local still = 0
      for _, lock in ipairs(view(envelope, "byBlame").locks) do still = still + lock.stillWaiting end
      assert.equal(1, still)
      assert.is_nil(envelope.signals)
      assert.is_nil(envelope.summary:find("(unknown)", 1, true)) -- no site leads when none has a name
    end)
  end)

  it("hints at its views and names the site that stands out", function()
    local envelope = collect("fights")
    assert.same({ "byCallSite", "byBlame", "byOwner" }, {
      envelope.hints[1].suggestedArguments.view, envelope.hints[2].suggestedArguments.view, envelope.hints[3].suggestedArguments.view,
    })
    local signal = envelope.signals[1]
    assert.same({ "contention.by-call-site", 1, "Lunette.Target.Fights.WaitForGate(int32)" },
      { signal.signal, signal.salience, signal.buckets[1].key })
    assert.matches("40 lock contentions on 2 locks in the recording", envelope.summary, 1, true)
    assert.is_true(#json.encode(envelope) < 16384)
  end)
end)
