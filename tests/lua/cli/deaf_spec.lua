-- SPDX-License-Identifier: MIT
-- A process whose script is stuck inside a C function of Lua's still ends when it is told to.
local fs = require("lunette.fs")
local loop = require("lunette.loop")
local sys = require("lunette.sys")

describe("lunette told to end #unit", function()
  it("ends within seconds although a backtracking pattern holds the loop", function()
    local script = ("/tmp/lunette-deaf-%d.lua"):format(sys.pid)
    assert(fs.write_private(script, [[
      return ("a"):rep(40):find(("a*"):rep(30) .. "b")
    ]]))
    finally(function() fs.remove(script) end)
    local argv = { "/usr/bin/timeout", "-k", "8", "-s", "TERM", "1", fs.realpath("/proc/self/exe"), "lua", script }
    local r = assert(loop.exec({ argv = argv, timeout_ms = 30000 }))
    assert.is_nil(r.timed_out)
    assert.equal(124, r.code) -- timeout(1): it was told to end, and it did (137: it had to be killed)
  end)
end)
