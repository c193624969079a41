-- SPDX-License-Identifier: MIT
-- Windows over DiagnosticSource on one process take the events from each other: each says so, whichever kind it is.
local bridge = require("collectors.diagnostic_source")
local loop = require("lunette.loop")

local function collect_for(ms)
  return bridge.watched(function()
    loop.sleep_ms(ms)
    return { notes = {} }
  end)
end

local function source(pid) return { process = { pid = pid } } end

describe("windows over the bridge", function()
  it("that are open at the same time say so, both", function()
    local first = loop.spawn(collect_for(40), {}, source(7), {})
    local second = collect_for(5)({}, source(7), {})
    assert.matches("BridgeShared", second.notes[1])
    assert.matches("BridgeShared", first:await().notes[1])
  end)

  it("say nothing alone, on another process, or one after another", function()
    local other = loop.spawn(collect_for(20), {}, source(8), {})
    assert.same({}, collect_for(1)({}, source(7), {}).notes)
    assert.same({}, collect_for(1)({}, source(7), {}).notes)
    assert.same({}, other:await().notes)
    assert.same({}, collect_for(1)({}, { path = "x.nettrace" }, {}).notes)
  end)

  it("leave a failure as it is", function()
    local artifact, err = bridge.watched(function() return nil, "no" end)({}, source(7), {})
    assert.same({ nil, "no" }, { artifact, err })
  end)
end)
