-- SPDX-License-Identifier: MIT
-- collect_events kind=datas over a Server GC that adapts to its load, and over those that do not.
local during = require("during")
local h = require("harness")
local snapshot = require("collectors.datas.snapshot")

local SECONDS <const> = 8 -- the work begins when the session is seen, on a busy machine a second or two late
local WORK_MS <const> = 3500
local SERVER <const> = { DOTNET_gcServer = "1" }
local MAX_ROWS <const> = 1000 -- that an answer keeps
local OPTED_IN <const> = { DOTNET_gcServer = "1", DOTNET_GCDynamicAdaptationMode = "1" } -- .NET 8 asks for it
local OFF <const> = { DOTNET_gcServer = "1", DOTNET_GCDynamicAdaptationMode = "0" }
local ENVIRONMENT <const> = { ["net10.0"] = SERVER, ["net9.0"] = SERVER, ["net8.0"] = OPTED_IN }

local function datas_of(envelope)
  h.ok(not envelope.error, "no error: " .. h.json.encode(envelope.error or {}))
  return envelope.data.datas
end

--- The load for a known time; what the target says that it did.
local function work(target)
  target:command("go", "^GOING")
  h.loop.sleep_ms(WORK_MS * h.slowness())
  target:command("stop", "^STOPPED")
  local did = {}
  for name, value in target:line("^DONE "):gmatch("([%w_]+)=(%d+)") do did[name] = math.tointeger(tonumber(value)) end
  return did
end

local function consistent(datas, did, what)
  h.eq(1, did.server, what .. ": Server GC")
  h.eq(nil, datas.status, what .. ": events came: " .. during.notes(datas))
  -- a sample for each collection but the first and the background ones
  h.ok(#datas.samples <= did.gen0 and #datas.samples >= math.min(MAX_ROWS, did.gen0 - did.gen2 - 1),
    ("%s: %d samples of %d collections, %d of them full"):format(what, #datas.samples, did.gen0, did.gen2))
  local index = 0
  for _, row in ipairs(datas.samples) do
    h.ok(row.gcIndex > index, what .. ": samples in order")
    h.ok(row.pauseMs > 0 and row.pauseMs <= row.elapsedBetweenGcsMs, what .. ": a pause within its interval")
    index = row.gcIndex
  end
  if #datas.tuningEvents < 3 then h.too_slow() end -- too few collections for decisions: a longer load has more
  local changes, heaps = 0, nil
  for _, row in ipairs(datas.tuningEvents) do
    h.eq(row.heapCount ~= row.newHeapCount, row.isTransition, what .. ": transition")
    h.ok(row.throughputCostPercent >= 0 and row.throughputCostPercent <= 100, what .. ": throughput cost")
    changes, heaps = changes + (row.isTransition and 1 or 0), row.newHeapCount
  end
  local o = datas.overview
  h.ok(o.heapCountChanges >= changes and o.minHeapCount >= 1 and o.maxHeapCount >= heaps, what .. ": overview: " .. h.json.encode(o))
end

local function adapts(skip)
  local server <close> = h.server()
  during.each_runtime({ "net10.0", "net9.0", "net8.0" }, skip, function(runtime)
    local target <close> = h.target(runtime, "datas", 4, { go = false, environment = ENVIRONMENT[runtime] })
    local envelope, did = during.both(target, function()
      return h.ok(server:call("collect_events", { kind = "datas", processId = target.pid, durationSeconds = SECONDS }))
    end, work)
    local short = datas_of(envelope)
    h.ok(short.cost and short.cost.events > 0 and short.cost.eventsLost == 0, runtime .. ": the price")
    h.eq({ 0, 0, 0 }, { #short.samples, #short.tuningEvents, #short.fullGcTuningEvents }, runtime .. ": no rows at Summary")
    h.ok(#h.json.encode(envelope) <= 16384, runtime .. ": a short answer")
    local function view(name, more)
      local arguments = { handle = envelope.handle, view = name, topN = 100000 }
      for k, v in pairs(more or {}) do arguments[k] = v end
      return h.ok(server:call("query_snapshot", arguments)).data.payload
    end
    local tuning, samples = view("tuning"), view("samples")
    consistent({ overview = view("overview").overview, notes = short.notes, samples = samples.samples, tuningEvents = tuning.tuning }, did,
      runtime)
    local transitions = 0
    for i, row in ipairs(tuning.tuning) do transitions = transitions + ((row.isTransition or i == 1) and 1 or 0) end
    h.eq(transitions, view("tuning", { changesOnly = true }).returned, runtime .. ": changes and a baseline")
    if runtime == "net8.0" then
      h.eq(nil, samples.samples[1].gen0BudgetPerHeapBytes, "what .NET 8 does not tell is absent")
      h.ok(samples.samples[1].mslWaitMs, "its one wait time")
      h.eq(0, view("gen2").returned, "nor has it decisions after full collections")
    else
      h.ok(samples.samples[1].gen0BudgetPerHeapBytes > 100000, runtime .. ": budget")
      for _, row in ipairs(view("gen2").gen2) do h.ok(row.gen2ThroughputCostPercent >= 0, runtime .. ": gen2 cost") end
    end
    h.no_session(target)
  end)
end

local function same_from_the_recording(skip)
  during.each_runtime({ "net10.0", "net8.0" }, skip, function(runtime)
    local target <close> = h.target(runtime, "datas", 4, { go = false, environment = ENVIRONMENT[runtime] })
    local live, recorded, did, artifact, again = during.live_and_recorded("datas", target, SECONDS, work)
    local samples, tuning = snapshot.samples(artifact), snapshot.tuning(artifact) -- all of them, also those that the answer leaves out
    consistent({ overview = live.overview, notes = live.notes, status = live.status, samples = samples, tuningEvents = tuning }, did,
      runtime)
    for _, name in ipairs { "processId", "overview", "samples", "tuningEvents", "fullGcTuningEvents" } do
      h.eq(live[name], recorded[name], runtime .. ": " .. name)
    end
    h.eq({ samples, tuning }, { (snapshot.samples(again)), (snapshot.tuning(again)) }, runtime .. ": all rows")
  end)
end

--- Success, with the reason.
local function nothing_to_tell(skip)
  local built, why = h.build_target("net10.0")
  if not built then skip(why) end
  local server <close> = h.server()
  local function none(environment, mode, pattern, what)
    local target <close> = h.target("net10.0", mode, 4, { go = false, environment = environment })
    local envelope = during.both(target, function()
      return h.ok(server:call("collect_events", { kind = "datas", processId = target.pid, durationSeconds = 3 }))
    end, function(t) return mode == "idle" or during.go(t) end)
    local datas = datas_of(envelope)
    h.eq("NoDatasEvents", datas.status, what .. ": status")
    h.ok(during.notes(datas):find(pattern), what .. ": " .. during.notes(datas))
    h.eq(0, datas.overview.heapCountChanges, what .. ": an empty overview")
    h.eq(nil, datas.overview.minHeapCount, what .. ": which claims nothing")
  end
  h.together {
    function() none({}, "gcs", "16 collections, none of them adapting: this is Workstation GC", "Workstation GC") return true end,
    function() none(OFF, "gcs", "%d+ collections of a Server GC with %d+ heaps, which does not adapt", "DATAS off") return true end,
    function() none(SERVER, "idle", "no collection happened in the window", "no collection") return true end,
  }
end

local function exits(skip)
  local built, why = h.build_target("net10.0")
  if not built then skip(why) end
  local target <close> = h.target("net10.0", "datas", 4, { go = false, environment = SERVER })
  local envelope, did = during.collect(target, { kind = "datas", durationSeconds = 20, depth = "Detail" }, function(t)
    local done = work(t)
    t:command("quit", "^BYE")
    return done
  end)
  local datas = datas_of(envelope)
  h.ok(during.notes(datas):find("ProcessEnded", 1, true), "the note: " .. during.notes(datas))
  h.ok(#datas.samples > 0 and #datas.samples <= did.gen0, "what came before is kept")
end

return {
  { "adapts on 10, 9 and 8", adapts },
  { "the same numbers from the recording of the session", same_from_the_recording },
  { "no adaptation: success, with the reason", nothing_to_tell },
  { "the target exits in the window", exits },
}
