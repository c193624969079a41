-- SPDX-License-Identifier: MIT
-- event_source over a recording of Lunette-Demo: 100 Ping, 100 Order/Start, 100 Order/Stop, 50 Bad (tests/data/recordings/README.md).
local asked = require("support.asked")
local collect_events = require("tools.collect_events")
local config = require("lunette.config")
local handles = require("lunette.handles")
local json = require("lunette.json")
local kit = require("support.framework_kit")
local sys = require("lunette.sys")

local SOURCE <const> = sys.home .. "/tests/data/recordings/source.nettrace"

local function call(more, options)
  local ctx = kit.ctx(options or { scopes = { "eventpipe" } })
  ctx.transport = "cli"
  local arguments = { kind = "event_source", providerName = "Lunette-Demo", traceFilePath = SOURCE }
  for name, value in pairs(more or {}) do arguments[name] = value end
  return kit.call(collect_events, arguments, ctx)
end

local function capture(more)
  local envelope = call(more)
  assert.is_nil(envelope.error)
  assert(kit.conforms(envelope, collect_events))
  return envelope.data.eventSource, envelope, assert(handles.get(envelope.handle)).artifact
end

describe("collectors.event_source", function()
  before_each(function() config.use(config.load { environ = { Diagnostics__EventSourceAllowlist__0 = "Lunette-Demo" } }) end)
  after_each(function() config.use(nil) end)

  it("counts all events by name and stores them with their payload", function()
    local data, _, artifact = capture { maxEvents = 1000, depth = "Detail" }
    assert.same({ "Lunette-Demo", 350, 350, false }, { data.provider, data.totalEvents, data.capturedCount, data.truncated })
    local counts = {}
    for _, g in ipairs(data.byEventName) do
      assert.equal(g.total, g.count)
      counts[g.eventName] = g.count
    end
    assert.same({ Ping = 100, ["Order/Start"] = 100, ["Order/Stop"] = 100, Bad = 50 }, counts)
    assert.equal(200, #data.events) -- inline; the handle has all
    assert.equal(350, #artifact.events)
    assert.same({ "Lunette-Demo", "Ping", "Informational", { number = "1", text = "ping 1" } },
      { data.events[1].provider, data.events[1].eventName, data.events[1].level, data.events[1].payload })
    assert.same({ "Order/Start", { id = "1", kind = "food" } }, { data.events[101].eventName, data.events[101].payload })
    local bad = artifact.events[350]
    assert.same({ "Bad", 3, { value = "50.25" } }, { bad.name, bad.level, bad.payload })
  end)

  it("counts past maxEvents: totals of the window, groups of what was stored", function()
    local data, _, artifact = capture { maxEvents = 120 }
    assert.same({ 350, 120, true }, { data.totalEvents, data.capturedCount, data.truncated })
    assert.same({ eventName = "Ping", count = 100, total = 100 }, data.byEventName[1])
    assert.same({ eventName = "Order/Start", count = 10, total = 100 }, data.byEventName[2])
    assert.matches("Truncated: 120 of 350", table.concat(data.notes, "\n"), 1, true)
    local view = asked.view("event-source", artifact, "byEventName")
    local stored = 0
    for _, g in ipairs(view.byEventName) do stored = stored + g.count end
    assert.same({ 350, 120, true, 120, 4 }, { view.totalEvents, view.capturedCount, view.truncated, stored, #view.byEventName })
  end)

  it("has views: summary cut to topN, all names, the first events", function()
    local _, _, artifact = capture { maxEvents = 1000 }
    assert.equal(2, #asked.view("event-source", artifact, "summary", { topN = 2 }).byEventName)
    assert.equal(4, #asked.view("event-source", artifact, "byEventName").byEventName)
    local events = asked.view("event-source", artifact, "events", { topN = 3 })
    assert.same({ 350, 3, 3, "ping 3" }, { events.totalEvents, events.returned, #events.events, events.events[3].payload.text })
  end)

  it("leaves the events to the handle at Summary, in a short answer", function()
    local data, envelope = capture()
    assert.equal(0, #data.events)
    assert.same({ 200, 350 }, { data.capturedCount, data.totalEvents }) -- the default of 200
    assert.is_true(#json.encode(envelope) <= 16384)
    assert.same({ "query_snapshot", "byEventName" }, { envelope.hints[1].nextTool, envelope.hints[1].suggestedArguments.view })
    assert.equal("counters", envelope.hints[3].suggestedArguments.kind)
  end)

  it("says of a source that was silent that it was", function()
    local data = capture { providerName = "System.Net.Http" }
    assert.same({ 0, 0, false }, { data.totalEvents, data.capturedCount, data.truncated })
    assert.matches("NotInRecording: the recording has no event of System.Net.Http", table.concat(data.notes, "\n"), 1, true)
  end)

  it("refuses a source outside the allowlist before anything is opened or asked", function()
    config.use(nil)
    for _, unsafe in ipairs { false, true } do
      local envelope = call({ unsafeProvider = unsafe }, { scopes = { "root" } })
      assert.same({ "EventSourceProviderNotAllowed", "Lunette-Demo" }, { envelope.error.kind, envelope.error.detail })
      assert.is_nil(envelope.safetyApproval)
    end
  end)

  it("asks for an acknowledgement on the unsafe path, then opens any source", function()
    config.use(nil)
    local scopes = { scopes = { "eventpipe", "eventsource-any" } }
    local preview = call({ unsafeProvider = true }, scopes)
    assert.equal("high", preview.safety.riskLevel)
    assert.is_nil(preview.data)
    local acknowledged = call({
      unsafeProvider = true, _dotnetDiagnostics = { acknowledgement = preview.safetyApproval.requiredAcknowledgement },
    }, scopes)
    assert.equal(350, acknowledged.data.eventSource.totalEvents)
  end)

  it("asks for an acknowledgement of keywords that force a collection", function()
    local runtime = { providerName = "Microsoft-Windows-DotNETRuntime", traceFilePath = SOURCE }
    assert.equal("moderate", call(runtime).safety.riskLevel)
    runtime.keywords = "0x1980001"
    local preview = call(runtime)
    assert.equal("high", preview.safety.riskLevel)
    assert.is_table(preview.safetyApproval)
  end)

  it("needs a name, and a level of 0 to 5", function()
    local ctx = kit.ctx()
    assert.equal("providerName", kit.call(collect_events, { kind = "event_source" }, ctx).error.detail)
    assert.equal("eventLevel", call({ eventLevel = 6 }).error.detail)
    assert.equal("providerName", call({ providerName = 'a"b' }).error.detail)
    assert.equal("maxEvents", call({ maxEvents = 0 }).error.detail)
  end)
end)
