-- SPDX-License-Identifier: MIT
-- Intervals of the System.Runtime meter: whole ones only, sums only over all five generations.
local meter = require("collectors.runtime_metrics.meter")

local TICKS <const> = 10000000
local HEAP <const>, FREE <const> = "dotnet.gc.last_collection.heap.size", "dotnet.gc.last_collection.heap.fragmentation.size"
local COMMITTED <const>, ALLOCATED <const> = "dotnet.gc.last_collection.memory.committed_size", "dotnet.gc.heap.total_allocated"

local function new(client_id)
  local list = {}
  return meter.new { client_id = client_id, on_interval = function(i) list[#list + 1] = i end }, list
end

local function event(name, fields, at_s)
  fields.sessionId = fields.sessionId or "SHARED"
  local ns = math.floor((at_s or 0) * 1e9)
  return { provider = meter.PROVIDER, name = name, time_ns = ns, unix_ns = ns, fields = fields }
end

local function bounds(from, to) return { intervalStartTime = math.floor(from * TICKS), intervalEndTime = math.floor(to * TICKS) } end

local function value(instrument, tags, text, rate)
  return event("UpDownCounterRateValuePublished",
    { meterName = "System.Runtime", instrumentName = instrument, tags = tags, value = text, rate = rate or "0" })
end

local function generation(instrument, name, text) return value(instrument, "gc.heap.generation=" .. name, text) end

--- All events of an interval that ends at `at` seconds; options change or leave out some.
local function interval(at, options)
  options = options or {}
  local list = { event("Collection/Start", bounds(at - (options.seconds or 1), at), at) }
  for i, name in ipairs { "gen0", "gen1", "gen2", "loh", "poh" } do
    if name ~= options.without_size then list[#list + 1] = generation(HEAP, name, tostring(i * 1000)) end
    if name ~= options.without_free then list[#list + 1] = generation(FREE, name, tostring(i)) end
  end
  if not options.without_committed then list[#list + 1] = value(COMMITTED, "", "50000") end
  list[#list + 1] = event("CounterRateValuePublished",
    { meterName = "System.Runtime", instrumentName = ALLOCATED, tags = "", rate = options.rate or "4321.4", value = "99999" })
  list[#list + 1] = event("Collection/Stop", bounds(at - 1, at), at)
  return list
end

local function feed(m, list)
  for _, e in ipairs(list) do m:add(e) end
end

describe("collectors.runtime_metrics.meter #unit", function()
  it("gives the nine values at the end of an interval: sums of the generations, bytes a second", function()
    local m, list = new("me")
    feed(m, interval(3))
    assert.equal(1, #list)
    local i = list[1]
    assert.same({ 15000, 1000, 2000, 3000, 4000, 5000 }, { i.heap, i.gen0, i.gen1, i.gen2, i.loh, i.poh })
    assert.same({ 50000, 15, 4321, 1 }, { i.committed, i.fragmentation, i.allocation_rate, i.seconds })
    assert.equal(3000000000, i.end_ns)
    assert.equal("integer", math.type(i.heap))
    assert.equal(0, m.discarded)
  end)

  it("divides the change by the length of the interval", function()
    local m, list = new("me")
    feed(m, interval(4, { seconds = 2, rate = "1000" }))
    assert.same({ 500, 2 }, { list[1].allocation_rate, list[1].seconds })
  end)

  it("has no rate in the first interval, where the runtime tells none", function()
    local m, list = new("me")
    feed(m, interval(1, { rate = "" }))
    assert.is_nil(list[1].allocation_rate)
    assert.equal(15000, list[1].heap)
  end)

  it("discards an interval that lacks a generation or the committed size: a partial sum would be too low", function()
    for _, options in ipairs { { without_size = "poh" }, { without_free = "loh" }, { without_committed = true } } do
      local m, list = new("me")
      feed(m, interval(1, options))
      assert.same({ 0, 1 }, { #list, m.discarded })
    end
  end)

  it("discards an interval whose beginning or end was not seen, and goes on with the next", function()
    local m, list = new("me")
    local first = interval(1)
    feed(m, { table.unpack(first, 2) })      -- no start
    feed(m, { table.unpack(interval(2), 1, 5) }) -- no stop
    feed(m, interval(3))
    assert.same({ 1, 2, 3000000000 }, { #list, m.discarded, list[1].end_ns })
  end)

  it("reads a comma as a decimal point, and no negative or infinite value", function()
    local m, list = new("me")
    feed(m, interval(1, { rate = "12,6" }))
    assert.equal(13, list[1].allocation_rate)
    local bad = interval(2)
    bad[2] = generation(HEAP, "gen0", "-5")
    feed(m, bad)
    assert.same({ 1, 1 }, { #list, m.discarded })
  end)

  it("leaves alone other meters, other sessions and other instruments", function()
    local m, list = new("me")
    local mixed = interval(1)
    for _, e in ipairs(interval(1)) do
      e.fields.sessionId = "somebody"
      e.fields.value = "7"
      table.insert(mixed, 2, e)
    end
    local other = generation(HEAP, "gen0", "7")
    other.fields.meterName = "Other"
    table.insert(mixed, 3, other)
    feed(m, mixed)
    assert.same({ 1, 15000, 0 }, { #list, list[1].heap, m.discarded })
  end)

  it("does not count a collection of other meters as an interval that was lost", function()
    local m, list = new("me")
    feed(m, { event("Collection/Start", bounds(0, 1)), event("Collection/Stop", bounds(0, 1)) })
    assert.same({ 0, 0 }, { #list, m.discarded })
  end)

  it("takes every session of a recording", function()
    local m, list = new(nil)
    local foreign = interval(1)
    for _, e in ipairs(foreign) do e.fields.sessionId = "somebody" end
    feed(m, foreign)
    assert.equal(1, #list)
  end)

  it("tells the limits of a collection that runs already, when they were refused to us", function()
    local refused = { clientId = "me", expectedMaxTimeSeries = 1000, expectedMaxHistograms = 10, expectedRefreshInterval = 5.0 }
    local m = new("me")
    m:add(event("MultipleSessionsConfiguredIncorrectlyError", refused))
    assert.same({ max_series = 1000, max_histograms = 10, interval_s = 5.0 }, m.expected)
    local other = new("other")
    other:add(event("MultipleSessionsConfiguredIncorrectlyError", refused))
    assert.is_nil(other.expected)
  end)

  it("listens to the session of another tool that the runtime refused it for", function()
    local m, list = new("me")
    m:add(event("MultipleSessionsNotSupportedError", { runningSessionId = "somebody" }))
    local foreign = interval(1)
    for _, e in ipairs(foreign) do e.fields.sessionId = "somebody" end
    feed(m, foreign)
    feed(m, interval(2)) -- of a shared collection that is none of ours now
    assert.same({ true, 1, 15000, 1000000000 }, { m.busy, #list, list[1].heap, list[1].end_ns })
    local shared, more = new("me")
    shared:add(event("MultipleSessionsNotSupportedError", { runningSessionId = "SHARED" })) -- meant for somebody else
    feed(shared, interval(1))
    assert.same({ nil, 1 }, { shared.busy, #more })
  end)

  it("asks for the four instruments only", function()
    local text = meter.arguments("cid", { max_series = 32, max_histograms = 0, interval_s = 1 })
    assert.equal("SessionId=SHARED;ClientId=cid;RefreshInterval=1;Metrics=System.Runtime\\dotnet.gc.heap.total_allocated,"
      .. "System.Runtime\\dotnet.gc.last_collection.memory.committed_size,System.Runtime\\dotnet.gc.last_collection.heap.size,"
      .. "System.Runtime\\dotnet.gc.last_collection.heap.fragmentation.size;MaxTimeSeries=32;MaxHistograms=0", text)
  end)
end)
