-- SPDX-License-Identifier: MIT
-- What rules cost: 500 of them on one window. The figure is printed; a busy machine gets ten times of it.
local bench = require("lunette.sys").home .. "/tests/bench/rules.lua"

local LIMIT_MS <const> = 50 -- 5 are promised on a machine at rest

describe("rules", function()
  it("judge a window by 500 of them within milliseconds", function()
    local _, best_ms = assert(loadfile(bench))("500")
    assert.is_true(best_ms < LIMIT_MS, ("%.1f ms"):format(best_ms))
  end)
end)
