-- SPDX-License-Identifier: MIT
-- Meters: kinds, rates, quantiles, tags, caps, other sessions.
local meters = require("collectors.counters.meters")

local function new(more)
  local options = { meters = { "Shop" }, interval_s = 1, max_series = 100, client_id = "me" }
  for k, v in pairs(more or {}) do options[k] = v end
  return meters.new(options)
end

local function event(name, fields, version)
  local f = { sessionId = "SHARED", meterName = "Shop", meterVersion = "", unit = "", tags = "" }
  for k, v in pairs(fields) do f[k] = v end
  return { provider = meters.PROVIDER, name = name, version = version or 2, time_ns = 1, fields = f }
end

describe("collectors.counters.meters", function()
  it("reads a counter: total as value, change a second as rate", function()
    local m = new()
    m:add(event("BeginInstrumentReporting", { instrumentName = "orders", instrumentType = "Counter`1", instrumentId = 3 }))
    local orders = { instrumentName = "orders", unit = "{order}", tags = "to=eu", rate = "", value = "7", instrumentId = 3 }
    m:add(event("CounterRateValuePublished", orders))
    m:add(event("Collection/Start", { intervalStartTime = 0, intervalEndTime = 20000000 }))
    orders.rate, orders.value = "11", "18"
    m:add(event("CounterRateValuePublished", orders))
    local rows = m:finish()
    assert.equal(1, #rows)
    assert.equal("Counter", rows[1].kind)
    assert.equal("{order}", rows[1].unit)
    assert.equal(18, rows[1].values.last)
    assert.equal(5.5, rows[1].rate)
    assert.same({ to = "eu" }, rows[1].tags)
  end)

  it("keeps no secret of a tag: by its name, by its value, in the text that names the series", function()
    local m = new()
    local tags = "user=ann,password=hunter2,auth=Bearer abcdefghijklmnop.1234567890,to=eu"
    m:add(event("GaugeValuePublished", { instrumentName = "orders", tags = tags, lastValue = "1" }))
    local row = m:finish()[1]
    assert.same({ user = "ann", password = "<redacted:sensitive>", auth = "Bearer <redacted:sensitive>", to = "eu" }, row.tags)
    assert.is_nil(row.tags_text:find("hunter2", 1, true) or row.tags_text:find("abcdefgh", 1, true))
  end)

  it("reads a histogram with a point or a comma", function()
    for _, text in ipairs { "0.5=1.25;0.95=3.5;0.99=5", "0.5=1,25;0.95=3,5;0.99=5" } do
      local m = new()
      m:add(event("HistogramValuePublished", { instrumentName = "wait", unit = "s", quantiles = text, count = 100, sum = 212.5 }))
      assert.same({ count = 100, sum = 212.5, p50 = 1.25, p95 = 3.5, p99 = 5 }, m:finish()[1].histogram)
    end
  end)

  it("keeps the last histogram that had values", function()
    local m = new()
    m:add(event("HistogramValuePublished", { instrumentName = "wait", quantiles = "0.5=1;0.95=2;0.99=3", count = 4, sum = 5 }))
    m:add(event("HistogramValuePublished", { instrumentName = "wait", quantiles = "", count = 0, sum = 0 }))
    assert.equal(2, m:finish()[1].histogram.p95)
  end)

  it("reads gauges and up-down counters, but not the version without a value", function()
    local m = new()
    m:add(event("GaugeValuePublished", { instrumentName = "heat", lastValue = "-3.75" }))
    m:add(event("UpDownCounterRateValuePublished", { instrumentName = "queue", rate = "1", value = "5" }))
    m:add(event("UpDownCounterRateValuePublished", { instrumentName = "old", rate = "1" }, 0))
    local rows = m:finish()
    assert.equal(2, #rows)
    assert.equal(-3.75, rows[1].values.last)
    assert.equal("Gauge", rows[1].kind)
    assert.equal(5, rows[2].values.last)
    assert.equal("UpDownCounter", rows[2].kind)
  end)

  it("keeps series of one instrument apart by their tags, in order", function()
    local m = new()
    for _, tags in ipairs { "b=2", "a=1", "" } do
      m:add(event("GaugeValuePublished", { instrumentName = "heat", lastValue = "1", tags = tags }))
    end
    local rows = m:finish()
    assert.same({ "", "a=1", "b=2" }, { rows[1].tags_text, rows[2].tags_text, rows[3].tags_text })
  end)

  it("splits tags, values with commas included", function()
    assert.same({ a = "1", route = "/x,y", z = "" }, meters.parse_tags("a=1,route=/x,y,z="))
    assert.same({}, meters.parse_tags(""))
  end)

  it("takes only the meters, instruments and prefixes that were asked for", function()
    local function matched(specs, meter, instrument)
      local m = new { meters = specs }
      m:add(event("GaugeValuePublished", { meterName = meter, instrumentName = instrument, lastValue = "1" }))
      return #m:finish() == 1
    end
    assert.is_true(matched({ "shop" }, "Shop", "x"))
    assert.is_false(matched({ "Shop" }, "Shopping", "x"))
    assert.is_true(matched({ "Shop*" }, "Shopping", "x"))
    assert.is_true(matched({ "*" }, "Anything", "x"))
    assert.is_true(matched({ "Shop\\wait" }, "Shop", "wait"))
    assert.is_false(matched({ "Shop\\wait" }, "Shop", "other"))
  end)

  it("leaves out the values of other sessions", function()
    local m = new()
    m:add(event("GaugeValuePublished", { sessionId = "foreign", instrumentName = "heat", lastValue = "1" }))
    assert.equal(0, #m:finish())
  end)

  it("takes any session of a recording", function()
    local m = new { recorded = true }
    m:add(event("GaugeValuePublished", { sessionId = "whoever", instrumentName = "heat", lastValue = "1" }))
    assert.equal(1, #m:finish())
  end)

  it("caps the series and counts what it drops", function()
    local m = new { max_series = 2 }
    for i = 1, 5 do m:add(event("GaugeValuePublished", { instrumentName = "heat", lastValue = "1", tags = "n=" .. i })) end
    assert.equal(2, #m:finish())
    assert.equal(3, m.dropped)
  end)

  it("learns with what limits to join a shared collection, when the refusal is its own", function()
    local m = new()
    local refusal = { clientId = "other", expectedMaxHistograms = 20, expectedMaxTimeSeries = 1000, expectedRefreshInterval = "3" }
    m:add(event("MultipleSessionsConfiguredIncorrectlyError", refusal))
    assert.is_nil(m.expected)
    refusal.clientId = "me"
    m:add(event("MultipleSessionsConfiguredIncorrectlyError", refusal))
    assert.same({ max_histograms = 20, max_series = 1000, interval_s = 3 }, m.expected)
  end)

  it("names the unshared session that is in the way", function()
    local m = new()
    m:add(event("MultipleSessionsNotSupportedError", { runningSessionId = "abc" }))
    assert.equal("abc", m.running_session)
  end)

  it("keeps error texts once, and at most so many", function()
    local m = new()
    m:add(event("Error", { errorMessage = "no" }))
    m:add(event("Error", { errorMessage = "no" }))
    for i = 1, meters.MAX_ERRORS + 3 do m:add(event("ObservableInstrumentCallbackError", { errorMessage = "e" .. i })) end
    assert.equal(meters.MAX_ERRORS, m.n_errors)
    assert.equal("Metrics error: no", m.errors[1])
    assert.equal(4, m.errors_dropped)
  end)

  it("notes the limits that the target met", function()
    local m = new()
    m:add(event("TimeSeriesLimitReached", {}))
    m:add(event("HistogramLimitReached", {}))
    assert.is_true(m.series_limit and m.histogram_limit)
  end)
end)
