-- SPDX-License-Identifier: MIT
-- catalog over a recording of Lunette-Demo, and its views.
local asked = require("support.asked")
local collect_events = require("tools.collect_events")
local handles = require("lunette.handles")
local json = require("lunette.json")
local kit = require("support.framework_kit")
local sys = require("lunette.sys")

local SOURCE <const> = sys.home .. "/tests/data/recordings/source.nettrace"

local function call(more)
  local ctx = kit.ctx()
  ctx.transport = "cli"
  local arguments = { kind = "catalog", traceFilePath = SOURCE }
  for name, value in pairs(more or {}) do arguments[name] = value or nil end
  return kit.call(collect_events, arguments, ctx)
end

local function catalog(more)
  local envelope = call(more)
  assert.is_nil(envelope.error)
  assert(kit.conforms(envelope, collect_events))
  return envelope.data.catalog, envelope, assert(handles.get(envelope.handle)).artifact
end

local function row(rows, provider, event)
  for _, r in ipairs(rows) do
    if r.providerName == provider and r.eventName == event then return r end
  end
  return nil
end

describe("collectors.catalog", function()
  it("ranks distinct provider, event and level by count", function()
    local data = catalog { providers = { "Lunette-Demo" } }
    assert.equal(350, data.totalEvents)
    assert.same({
      { providerName = "Lunette-Demo", eventName = "Order/Start", level = "Informational", count = 100 },
      { providerName = "Lunette-Demo", eventName = "Order/Stop", level = "Informational", count = 100 },
      { providerName = "Lunette-Demo", eventName = "Ping", level = "Informational", count = 100 },
      { providerName = "Lunette-Demo", eventName = "Bad", level = "Warning", count = 50 },
    }, data.catalog)
    assert.same({ "Lunette-Demo" }, data.providers)
  end)

  it("shows a whole recording when no sources are named, without what the stream says of itself", function()
    local data = catalog()
    assert.equal(100, row(data.catalog, "Lunette-Demo", "Ping").count)
    assert.is_truthy(row(data.catalog, "Microsoft-Windows-DotNETRuntimeRundown", "Method/DCStopVerbose"))
    for _, r in ipairs(data.catalog) do assert.are_not.equal("Microsoft-DotNETCore-EventPipe", r.providerName) end
    local sum = 0
    for _, r in ipairs(data.catalog) do sum = sum + r.count end
    assert.equal(data.totalEvents, sum)
  end)

  it("refuses a wildcard, which would find nothing, and takes that for everything of a recording as it is", function()
    for _, given in ipairs { { traceFilePath = false, processId = 1, providers = { "*" } }, { providers = { "Lunette*" } } } do
      local envelope = call(given)
      assert.equal("InvalidArgument", envelope.error.kind)
      assert.matches("whole names, not '[%a]*%*'.*Leave it out", envelope.error.message)
    end
    assert.equal((catalog()).totalEvents, (catalog { providers = { "*" } }).totalEvents)
  end)

  it("says which of the named sources a recording does not hold", function()
    local data = catalog { providers = { "lunette-demo", "Lunette-Nothing" } }
    assert.equal(350, data.totalEvents)
    assert.equal("ProviderSilent: no event came from Lunette-Nothing. Without providers all sources of the recording are shown.",
      data.notes[#data.notes])
  end)

  it("holds no payload value: none in the answer, none in any view, none behind the handle", function()
    local data, envelope, artifact = catalog { providers = { "Lunette-Demo" }, depth = "Detail", maxEvents = 400 }
    assert.equal(100, #data.sample)
    local texts = { json.encode(envelope), json.encode(artifact.sample), json.encode(artifact.catalog) }
    for _, name in ipairs { "catalog", "byProvider", "events" } do
      texts[#texts + 1] = json.encode((asked.view("event-catalog", artifact, name)))
    end
    for _, text in ipairs(texts) do
      for _, value in ipairs { "ping 1", "book", "food", "toy", "tool", "payload" } do
        assert.is_nil(text:find('"' .. value, 1, true), value)
      end
    end
    assert.same({ "event", "level", "provider", "unix" }, (function()
      local keys = {}
      for key in pairs(artifact.sample[1]) do keys[#keys + 1] = key end
      table.sort(keys)
      return keys
    end)())
  end)

  it("keeps the first maxEvents occurrences, and counts all", function()
    local data, _, artifact = catalog { providers = { "Lunette-Demo" }, depth = "Detail", maxEvents = 7 }
    assert.same({ 350, 7, true }, { data.totalEvents, #data.sample, data.truncated })
    assert.equal(7, #artifact.sample)
    assert.equal("Ping", data.sample[1].eventName)
    assert.matches("^2026%-11%-30T10:05:51%.%d%d%dZ$", data.sample[1].timestamp)
    assert.is_false(catalog { providers = { "Lunette-Demo" }, maxEvents = 350 }.truncated)
  end)

  it("drops the sample at Summary and keeps the catalog", function()
    local data, envelope = catalog()
    assert.equal(0, #data.sample)
    assert.is_true(#data.catalog >= 4)
    assert.is_true(#json.encode(envelope) <= 16384)
    assert.same({ "query_snapshot", "catalog" }, { envelope.hints[1].nextTool, envelope.hints[1].suggestedArguments.view })
  end)

  it("hints at the payload of a source that may be opened, or says what it takes", function()
    local _, envelope = catalog()
    local open = envelope.hints[2].suggestedArguments
    assert.same({ "event_source", "Microsoft-Windows-DotNETRuntimeRundown" }, { open.kind, open.providerName })
    _, envelope = catalog { providers = { "Lunette-Demo" } }
    local closed = envelope.hints[2]
    assert.same({ "Lunette-Demo", true }, { closed.suggestedArguments.providerName, closed.suggestedArguments.unsafeProvider })
    assert.matches("eventsource-any", closed.reason, 1, true)
  end)

  it("has views that filter by provider and by event in any letter case, with or without the slash", function()
    local _, _, artifact = catalog()
    local function names(view, options)
      local list = {}
      for i, r in ipairs(asked.view("event-catalog", artifact, view, options)[view == "events" and "events" or "catalog"]) do
        list[i] = r.eventName
      end
      return list
    end
    assert.same({ "Order/Start", "Order/Stop" }, names("catalog", { providerFilter = "LUNETTE", rootMethodFilter = "order" }))
    assert.same({ "Order/Start" }, names("catalog", { rootMethodFilter = "OrderStart" }))
    assert.same({ "Ping" }, names("catalog", { rootMethodFilter = "PING" }))
    assert.same({}, names("catalog", { providerFilter = "nobody" }))
    assert.same({ "Ping", "Ping" }, names("events", { providerFilter = "lunette-demo", topN = 2 }))
    assert.equal(1, asked.view("event-catalog", artifact, "catalog", { topN = 1 }).returned)
  end)

  it("rolls up by provider, the busiest first", function()
    local _, _, artifact = catalog()
    local view = asked.view("event-catalog", artifact, "byProvider", { providerFilter = "Demo" })
    assert.same({ { providerName = "Lunette-Demo", count = 350, distinctEvents = 4 } }, view.providers)
    local all = asked.view("event-catalog", artifact, "byProvider").providers
    for i = 2, #all do assert.is_true(all[i - 1].count >= all[i].count) end
  end)

  it("refuses a list of sources that cannot be asked for", function()
    for _, providers in ipairs { json.array {}, { "" }, { 'a"b' }, { ("x"):rep(300) } } do
      local err = call({ providers = providers }).error
      assert.same({ "InvalidArgument", "providers" }, { err.kind, err.detail })
    end
  end)
end)
