-- SPDX-License-Identifier: MIT
-- collect_events(kind="wait-handles") over recordings of known waits, and its views, notes, hints and signal.
local json = require("lunette.json")
local waits = require("support.waits_kit")

local between, ms = waits.between, waits.ms

local function collect(name, more) return waits.collect("wait-handles", name, more) end
local function view(envelope, name, more) return waits.view("wait-handles", envelope, name, more) end

local function by_site(rows)
  local map = {}
  for _, row in ipairs(rows) do map[row.callSiteMethod:match("([%w]+)%(")] = row end
  return map
end

-- as the recordings' README says: name, waits of each kind, the time that each kind measured
local WAITS <const> = {
  { "waits", 20, { WaitOnMutex = 419.5, WaitOnSemaphore = 419.8, WaitOnEvent = 424.9 } },
  { "net9-waits", 4, { WaitOnMutex = 84.5, WaitOnSemaphore = 84.8, WaitOnEvent = 84.6 } },
}

describe("collect_events wait-handles, recorded", function()
  it("counts the waits of each handle, their time and their threads, on .NET 9 and 10", function()
    for _, known in ipairs(WAITS) do
      local name, n, measured = table.unpack(known)
      local envelope, data = collect(name)
      assert.same({ 3 * n, 3, 0, 0 }, { data.totalWaits, data.waitingThreads, data.stillWaiting, data.waitsInsideContention })
      assert.same({ "WaitHandle", 3 * n, 3 }, { data.bySource[1].source, data.bySource[1].waits, data.bySource[1].waitingThreads })
      assert.equal(0, #data.notes, table.concat(data.notes, " "))
      local payload = view(envelope, "byCallSite")
      assert.same({ 3 * n, 3 }, { payload.totalWaits, payload.returned })
      local sites = by_site(payload.callSites)
      for site, measured_ms in pairs(measured) do
        local row = sites[site]
        assert.same({ n, 1, "WaitHandle", "lunette-target" }, { row.waits, row.waitingThreads, row.source, row.callSiteModule })
        between(0.97 * measured_ms, measured_ms, ms(row.totalWaitDuration))
        between(20.1, 23.4, ms(row.p50WaitDuration))
        between(ms(row.p50WaitDuration), ms(row.maxWaitDuration), ms(row.p95WaitDuration))
        assert.matches("^System.Threading.WaitHandle.WaitOne", row.waitMethod)
        assert.is_nil(row.idle)
        local stack = table.concat(row.stack, "\n")
        assert.matches("System.Threading.WaitHandle.WaitOne.*Lunette.Target.Waits." .. site .. "%(%).*Lunette.Target.Waits.Serve", stack)
      end
    end
  end)

  it("keeps the waits inside lock contention out of its figures, and says how many they are", function()
    for _, name in ipairs { "holds", "net9-holds" } do
      local envelope, data = collect(name)
      assert.same({ 5, 10, 1 }, { data.totalWaits, data.waitsInsideContention, data.waitingThreads }, name)
      assert.matches("InsideContention: 10 more waits", table.concat(data.notes, " "), 1, true)
      assert.equal("contention", envelope.hints[3].suggestedArguments.kind)
      local payload = view(envelope, "byCallSite")
      assert.same({ 1, "Lunette.Target.Fights.HoldAndWait()", 5 },
        { payload.returned, payload.callSites[1].callSiteMethod, payload.callSites[1].waits })
    end
  end)

  it("whereThreadsWait ranks waits and contention together, each once", function()
    for _, name in ipairs { "holds", "net9-holds" } do
      local payload = view(collect(name), "whereThreadsWait")
      assert.equal(2, payload.returned)
      local locks, handles = table.unpack(payload.rows)
      assert.same({ "LockContention", "Lunette.Target.Fights.WaitForGate(int32)", 10 }, { locks.reason, locks.callSiteMethod, locks.waits })
      assert.same({ "WaitHandle", "Lunette.Target.Fights.HoldAndWait()", 5 }, { handles.reason, handles.callSiteMethod, handles.waits })
      between(210, 267.8, ms(locks.totalWaitDuration))
      between(100, 110, ms(handles.totalWaitDuration))
      between(0.999, 1.001, locks.share + handles.share)
      between(-0.001, 0.001, ms(payload.totalWaitDuration) - ms(locks.totalWaitDuration) - ms(handles.totalWaitDuration))
    end
  end)

  it("shows contention in the ranking where there are no waits of another kind", function()
    local payload = view(collect("fights"), "whereThreadsWait")
    assert.same({ 1, "LockContention", 40, 1 }, { payload.returned, payload.rows[1].reason, payload.rows[1].waits, payload.rows[1].share })
  end)

  it("refuses a recording of .NET 8, which tells of no waits, and says what works there", function()
    local e = waits.refused("wait-handles", "net8-holds")
    assert.equal("UnsupportedRuntime", e.kind)
    assert.matches(".NET 8, which does not tell of waits on handles: .NET 9 and later do", e.message, 1, true)
  end)

  it("has no figures but a note in an empty window", function()
    local envelope, data = collect("quiet")
    assert.same({ 0, 0, "00:00:00" }, { data.totalWaits, #data.bySource, data.totalWaitDuration })
    assert.is_nil(data.p50WaitDuration)
    assert.is_nil(data.maxWaitDuration)
    assert.matches("NoWaits", data.notes[1])
    assert.equal("collect_thread_snapshot", envelope.hints[1].nextTool)
    assert.is_nil(envelope.signals)
    local payload, answer = view(envelope, "whereThreadsWait")
    assert.equal(0, payload.returned)
    assert.matches("No thread with something to do waited", answer.summary, 1, true)
  end)

  it("tells of those who still waited, and has no names, when a recording stops half-way", function()
    waits.cut("waits", 2200, function(path) -- the 36th wait has begun
      local envelope, data = collect(nil, { traceFilePath = path })
      assert.same({ 35, 1, "(unknown)" }, { data.totalWaits, data.stillWaiting, data.callSites[1].callSiteMethod })
      local notes = table.concat(data.notes, "\n")
      for _, word in ipairs { "Incomplete", "NoNames", "StillWaiting: 1 of the waits" } do assert.matches(word, notes, 1, true) end
      local row = view(envelope, "whereThreadsWait").rows[1]
      assert.same({ 35, 1, "WaitHandle" }, { row.waits, row.stillWaiting, row.reason })
      assert.is_true(ms(row.stillWaitingDuration) >= 0)
      assert.is_nil(row.stack)
    end)
  end)

  it("summary has what the answer has", function()
    local envelope, data = collect("waits")
    assert.matches("; 3%d %% of it at Lunette%.Target%.Waits%.WaitOn%a+%(%)%.$", envelope.summary) -- three sites with a third each
    local payload = view(envelope, "summary")
    for _, name in ipairs { "totalWaits", "totalWaitDuration", "p50WaitDuration", "p95WaitDuration", "maxWaitDuration", "bySource" } do
      assert.same(data[name], payload[name])
    end
  end)

  it("names the site that stands out, and none where three are alike", function()
    assert.is_nil(collect("waits").signals)
    local signal = collect("net9-holds").signals[1]
    assert.same({ "waits.by-call-site", "Lunette.Target.Fights.WaitForGate(int32)" }, { signal.signal, signal.buckets[1].key })
    between(0.6, 0.8, signal.salience)
    assert.is_true(#json.encode(collect("waits")) < 16384)
  end)
end)
