-- SPDX-License-Identifier: MIT
local lines = require("lunette.sandbox.lines")
local log = require("lunette.log")

describe("lunette.sandbox.lines #unit", function()
  local was, written, clock = {}, nil, nil

  before_each(function()
    written, clock = {}, 0
    for _, level in ipairs { "info", "warning" } do
      was[level] = log[level]
      log[level] = function(_, message) written[#written + 1] = message end
    end
  end)
  after_each(function()
    for level, fn in pairs(was) do log[level] = fn end
  end)

  it("lets so many lines through at once, then so many a second, and says what it left out", function()
    local write = lines.writer("x.lua", function() return clock end)
    for i = 1, lines.AT_ONCE + 50 do write("info", "site", "line " .. i) end
    assert.equal(lines.AT_ONCE + 1, #written)
    assert.equal("line " .. lines.AT_ONCE, written[lines.AT_ONCE])
    assert.matches("more than 200 lines at once", written[lines.AT_ONCE + 1], 1, true)
    clock = 1000
    for i = 1, 30 do write("info", "site", "later " .. i) end
    assert.same({ "50 lines were left out", "later 1" }, { written[lines.AT_ONCE + 2], written[lines.AT_ONCE + 3] })
    assert.equal("later " .. lines.PER_SECOND, written[lines.AT_ONCE + 2 + lines.PER_SECOND])
    assert.equal(lines.AT_ONCE + 2 + lines.PER_SECOND + 1, #written) -- and again that lines are left out
  end)

  it("says nothing of itself for a script that logs a little", function()
    local write = lines.writer("x.lua", function() return clock end)
    for i = 1, 1000 do
      clock = i * 100
      write("info", "site", "line")
    end
    assert.equal(1000, #written)
  end)
end)
