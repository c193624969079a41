-- SPDX-License-Identifier: MIT
-- The notes of a counter window: each finding once, in words that say the cause.
local notes_of = require("collectors.counters.notes")

--- A window in which all went well, with some parts replaced.
local function said(more)
  more = more or {}
  local plan = {
    providers = { "System.Runtime", "Microsoft.AspNetCore.Hosting" }, meters = more.meters or {}, interval_s = 1, max_series = 50,
    limits = { max_histograms = 20 }, explicit = more.explicit, implicit_meters = more.implicit_meters,
  }
  local counters = {
    providers = more.providers or { ["System.Runtime"] = { name = "System.Runtime", last_ns = 4900000000, longest_s = 0 } },
    dropped = 0, MAX_COUNTERS = 2048, stale = {}, without_value = {}, not_finite = 0, malformed = 0,
  }
  for name, value in pairs(more.counters or {}) do counters[name] = value end
  local meters = { dropped = 0, errors = {}, not_finite = 0, malformed = 0, collections = 0 }
  for name, value in pairs(more.of_meters or {}) do meters[name] = value end
  local state = {
    counters = counters, meters = meters, last_ns = 4900000000, result = { ended = more.ended or "deadline", elapsed_ms = 5000 },
  }
  local notes = {}
  notes_of.add(notes, plan, state, more.rows or {})
  return notes, state
end

describe("collectors.counters.notes", function()
  it("has nothing to say when all went well, also without ASP.NET Core", function() assert.same({}, said()) end)

  it("names providers that were asked for and silent", function()
    assert.matches("^ProviderSilent: no counter came from Microsoft%.AspNetCore%.Hosting%.", said({ explicit = true })[1])
  end)

  it("names System.Runtime when it is silent, asked for or not", function()
    assert.matches("^ProviderSilent: no counter came from System%.Runtime%.", said({ providers = {} })[1])
  end)

  it("tells a late interval, and keeps its length for the triage", function()
    local notes, state = said { providers = { ["System.Runtime"] = { name = "System.Runtime", last_ns = 4900000000, longest_s = 3.5 } } }
    assert.matches("^SilentInterval: System%.Runtime was silent for 3%.5 s %(interval 1 s%)", notes[1])
    assert.equal(3.5, state.silent_s)
  end)

  it("tells silence at the end of the window", function()
    local notes, state = said { providers = { ["System.Runtime"] = { name = "System.Runtime", last_ns = 2000000000, longest_s = 0 } } }
    assert.matches("^SilentInterval: nothing came from System%.Runtime in the last 3%.0 s", notes[1])
    assert.equal(3, state.silent_s)
  end)

  it("does not call the end of a stream silence", function()
    assert.same({}, said { ended = "stream-end", providers = { ["System.Runtime"] = { name = "System.Runtime", last_ns = 4500000000,
      longest_s = 0 } } })
  end)

  local cases = {
    { { counters = { dropped = 7 } }, "^CounterLimitReached: capped at 2048 counters; 7 values of others were left out%.$" },
    { { counters = { stale = { "System.Runtime/cpu-usage" } } }, "^FirstReading: System%.Runtime/cpu%-usage is left out" },
    { { counters = { without_value = { "A/b" } } }, "^NoMeasurement: nothing was written in the window to A/b%.$" },
    { { counters = { not_finite = 2 } }, "^NotFinite: 2 values" },
    { { counters = { malformed = 3 } }, "^Malformed: 3 events" },
    { { of_meters = { dropped = 1 } }, "^TimeSeriesLimitReached: capped at 50 series%.$" },
    { { of_meters = { series_limit = true } }, "^TimeSeriesLimitReached: capped at 50 series%.$" },
    { { of_meters = { histogram_limit = true } }, "^HistogramLimitReached: the target keeps at most 20 histograms%.$" },
    { { of_meters = { errors = { "Metrics error: x" } } }, "^Metrics error: x$" },
    { { of_meters = { running_session = "abc" } }, "^MetersBusy: .*%(abc%)" },
    { { meters = { "Shop" }, of_meters = { collections = 3 } }, "^MetersSilent: none of the asked Meters" },
    { { meters = { "Shop" } }, "^MetersSilent: the process runs no Meter collection" },
  }
  for _, case in ipairs(cases) do
    it("says " .. case[2], function()
      local notes = said(case[1])
      assert.equal(1, #notes)
      assert.matches(case[2], notes[1])
    end)
  end

  it("is not surprised by silent Meters that nobody asked for by name", function()
    assert.same({}, said { meters = { "Shop" }, implicit_meters = true })
  end)

  it("lists ten silent counters and counts the others", function()
    local names = {}
    for i = 1, 14 do names[i] = "P/c" .. i end
    assert.matches("P/c10 and 4 more%.$", said({ counters = { without_value = names } })[1])
  end)
end)
