-- SPDX-License-Identifier: MIT
-- One attach a process at a time.
local attach = require("lunette.attach")
local config = require("lunette.config")
local loop = require("lunette.loop")

local PID <const> = 4194304 + 17 -- no kernel gives this number

describe("lunette.attach #unit", function()
  local settings = {}
  before_each(function()
    settings = { MCP_ATTACH_MAX_PER_PID = 1, MCP_ATTACH_WAIT_MS = 0 }
    stub(config, "get", function(key) return settings[key] end)
  end)
  after_each(function() config.get:revert() end)

  it("answers Busy while another call is attached to the process", function()
    local first <close> = assert(attach.enter(PID))
    local second, err = attach.enter(PID)
    assert.is_nil(second)
    assert.equal("Busy", err.kind)
    assert(attach.enter(PID + 1)):release()
    first:release()
    first:release() -- twice does no harm
    assert(attach.enter(PID)):release()
  end)

  it("waits where it is told to", function()
    settings.MCP_ATTACH_WAIT_MS = 60000
    local first = assert(attach.enter(PID))
    loop.spawn(function()
      loop.sleep_ms(20)
      first:release()
    end)
    local second <close> = assert(attach.enter(PID))
    assert.equal(PID, second.pid)
  end)

  it("stops waiting in time", function()
    settings.MCP_ATTACH_WAIT_MS = 20
    local first <close> = assert(attach.enter(PID))
    local _, err = attach.enter(PID)
    assert.equal("Busy", err.kind)
    first:release()
    assert(attach.enter(PID)):release()
  end)
end)
