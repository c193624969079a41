-- SPDX-License-Identifier: MIT
-- What a reload costs among 2,000 site files. The figure is printed; a busy machine gets ten times of it.
local bench = require("lunette.sys").home .. "/tests/bench/reload.lua"

local LIMIT_MS <const> = 500 -- 50 are promised on a machine at rest

describe("reload", function()
  it("takes up one changed file of 2,000 within milliseconds", function()
    local _, best_ms = assert(loadfile(bench))("2000", "5")
    assert.is_true(best_ms < LIMIT_MS, ("%.1f ms"):format(best_ms))
  end)
end)
