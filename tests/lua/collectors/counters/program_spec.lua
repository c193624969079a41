-- SPDX-License-Identifier: MIT
-- The counters program: each event comes once, in the order of the stream, with the fields that the event has.
local events = require("lunette.events")
local kit = require("support.framework_kit")
local probe = require("lunette.probe")
local program = require("collectors.counters.program")
local sys = require("lunette.sys")

local DEMO <const> = sys.home .. "/tests/data/demo.nettrace"
local METRICS <const> = "System.Diagnostics.Metrics"

local function rows_of(with_meters)
  local list = {}
  assert(probe.run(kit.ctx(), program.new({}, with_meters, function(event) list[#list + 1] = event end), { path = DEMO }))
  return list
end

-- The same events as the stream's own reader gives them.
local function read()
  local source <close> = assert(events.open {
    path = DEMO, want = {
      { provider = "System.Runtime" }, { provider = "Microsoft.AspNetCore.Hosting", event = "EventCounters" },
      { provider = "Microsoft-AspNetCore-Server-Kestrel", event = "EventCounters" }, { provider = METRICS },
    },
  })
  local list = {}
  while true do
    local batch = source:next(5000)
    if not batch then return list end
    table.move(batch, 1, #batch, #list + 1, list)
  end
end

describe("collectors.counters.program", function()
  it("refuses a wildcard for an EventSource, which would find nothing; names of meters may be patterns", function()
    local counters = require("collectors.counters")
    local bad = counters.check { providers = { "System.Runtime", "*" } }
    assert.same({ "InvalidArgument", "providers" }, { bad.kind, bad.detail })
    assert.matches("whole names, not '*'", bad.message, 1, true)
    assert.is_nil(counters.check { providers = { "System.Runtime" }, meters = { "*" } })
  end)

  it("gives every event once, in the order of the stream, with its provider, name and version", function()
    local rows, whole = rows_of(true), read()
    assert.is_true(#whole > 300)
    assert.equal(#whole, #rows)
    for i, event in ipairs(whole) do
      assert.same({ event.provider, event.name, event.version, event.time_ns },
        { rows[i].provider, rows[i].name, rows[i].version, rows[i].time_ns })
    end
  end)

  it("gives the fields of the events, unchanged", function()
    local rows, n = rows_of(true), 0
    for i, event in ipairs(read()) do
      for name, value in pairs(event.fields.Payload or event.fields) do
        local got = rows[i].fields[name]
        if got ~= nil then
          n = n + 1
          assert.equal(value, got, event.name .. "." .. name)
        end
      end
      if event.fields.Payload then
        for _, name in ipairs { "Name", "DisplayName", "CounterType", "IntervalSec", "Series" } do
          assert.equal(event.fields.Payload[name], rows[i].fields[name], name)
        end
      end
    end
    assert.is_true(n > 2000)
  end)

  it("leaves the Meters out when none were asked for", function()
    for _, event in ipairs(rows_of(false)) do assert.is_true(event.provider ~= METRICS) end
  end)
end)
