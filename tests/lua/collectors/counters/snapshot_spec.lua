-- SPDX-License-Identifier: MIT
-- What of a counters capture is answered inline: at Summary, and in a batch beside gc.
local batch = require("collectors.batch.counters")
local snapshot = require("collectors.counters.snapshot")

local function counter(name, value)
  return { provider = "System.Runtime", name = name, display_name = name, kind = "Mean", series = { last = value } }
end

local function histogram(instrument, count, tags)
  return { meter = "M", instrument = instrument, kind = "Histogram", tags = { t = tags }, tags_text = tags,
    histogram = { count = count, sum = 1, p50 = 0.1, p95 = 0.2, p99 = 0.3 } }
end

describe("counters inline", function()
  it("has of all histograms the request duration alone, busiest first, at most so many", function()
    local artifact = { meters = { histogram("kestrel.connection.duration", 99, "a"), histogram("http.server.request.duration", 1, "b"),
      histogram("http.server.request.duration", 7, "c"), histogram("http.server.request.duration", 3, "d") } }
    local rows, left_out = snapshot.request_durations(artifact, 2)
    assert.equal(1, left_out)
    assert.same({ 2, "http.server.request.duration", "c", 0.2, "d" },
      { #rows, rows[1].instrument, rows[1].tags.t, rows[1].histogram.p95, rows[2].tags.t })
  end)

  it("is at most 18 counters in a batch, the three of Gen2 among them when gc saw such a collection", function()
    local function extended(n, gen2)
      local artifact = { counters = { counter("gen-2-size", 1), counter("loh-size", 2), counter("gc-fragmentation", 3) } }
      local result = { data = { counters = {} }, extras = { handle = { artifact = artifact } } }
      for i = 1, n do result.data.counters[i] = snapshot.counter_row(counter("c" .. i, i)) end
      batch.extend(result, gen2)
      return result.data.counters
    end
    local rows = extended(15, 1)
    assert.same({ 18, "c15", "gen-2-size", "loh-size", "gc-fragmentation", 3 },
      { #rows, rows[15].name, rows[16].name, rows[17].name, rows[18].name, rows[18].value })
    assert.equal(15, #extended(15, 0))
    rows = extended(20, 1)
    assert.same({ 18, "c15", "gc-fragmentation" }, { #rows, rows[15].name, rows[18].name })
    assert.equal(18, #extended(20, 0))
  end)
end)
